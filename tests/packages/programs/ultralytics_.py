"""ultralytics: models from their yaml in detection, segmentation, boxes with angles and classification: losses, gradients, a step, fused, saved and loaded."""
import json
import os
import tempfile

FOLDER = tempfile.mkdtemp()
os.environ.update(YOLO_OFFLINE="True", YOLO_VERBOSE="False", YOLO_CONFIG_DIR=FOLDER)

import torch  # noqa: E402
from ultralytics import YOLO  # noqa: E402
from ultralytics.cfg import get_cfg  # noqa: E402
from ultralytics.utils.nms import TorchNMS  # noqa: E402

SIZE = 64


def wave(*shape, k=0.37):
    return torch.sin(torch.arange(torch.Size(shape).numel()).double() * k).reshape(shape)


def filled(model):
    with torch.no_grad():
        for i, (name, p) in enumerate(sorted(model.named_parameters())):
            v = torch.sin(torch.arange(p.numel()).double() * (1.37 + 0.01 * i) + i)
            p.copy_((v * min(0.3, 1.5 / max(1, p.numel() / p.shape[0]) ** 0.5) if p.ndim > 1 else 1 + 0.2 * v if name.endswith("weight") else 0.3 * v).view(p.shape))
    return model.double()


def sizes(x):
    return [sizes(v) for v in x] if isinstance(x, (list, tuple)) else [x.double().sum().item(), x.double().abs().sum().item()]


x = (wave(2, 3, SIZE, SIZE) + 1) / 2
boxes = torch.tensor([[0.5, 0.5, 0.4, 0.4], [0.3, 0.3, 0.2, 0.3], [0.6, 0.5, 0.5, 0.3]])
masks = torch.zeros(2, SIZE // 4, SIZE // 4)
masks[0, 4:10, 4:10], masks[0, 3:6, 3:6], masks[1, 5:11, 4:12] = 1, 2, 1
BATCHES = {
    "yolov8n": {"bboxes": boxes},
    "yolo11n-seg": {"bboxes": boxes, "masks": masks, "sem_masks": masks.long()},
    "yolov8n-obb": {"bboxes": torch.cat([boxes, torch.tensor([[0.3], [0.1], [0.5]])], 1)},
    "yolov8n-cls": {"cls": torch.tensor([1, 2])},
}
out = {}
for name, batch in BATCHES.items():
    whole = YOLO(f"{name}.yaml")
    model = filled(whole.model).train()
    model.args = get_cfg()
    batch = {"img": x, "batch_idx": torch.tensor([0.0, 0.0, 1.0]), "cls": torch.tensor([[1.0], [2.0], [3.0]]), **batch}
    optimizer = torch.optim.SGD(model.parameters(), 1e-6, momentum=0.9)
    loss = model(batch)[0].sum()
    loss.backward()
    steps = [loss.item(), sum(p.grad.abs().sum().item() for p in model.parameters() if p.grad is not None)]
    optimizer.step()
    steps.append(model(batch)[0].sum().item())
    out[name] = steps
    with torch.no_grad():
        out[f"{name} said"] = sizes(model.eval()(x)[0])
        if name == "yolov8n":
            out["fused"] = sizes(model.fuse(verbose=False)(x)[0])
            model.criterion = None
            whole.save(f"{FOLDER}/model.pt")
            again = YOLO(f"{FOLDER}/model.pt")
            out["loaded"] = [type(again.model).__name__, *sizes(again.model.float()(x.float())[0])]
corners = torch.tensor([[0.0, 0, 4, 4], [1, 1, 4, 4], [5, 5, 9, 9], [0, 0, 4, 3], [5, 6, 9, 9]])
out["nms"] = [f(corners, torch.tensor([0.5, 0.9, 0.3, 0.8, 0.7]), 0.5).tolist() for f in (TorchNMS.nms, TorchNMS.fast_nms)]
print(json.dumps(out))
