"""Numbers of a confusion matrix."""
import flambeau as fl


def confusion(predicted: fl.Tensor, target: fl.Tensor, classes: int) -> fl.Tensor:
    return fl.bincount(target * classes + predicted, minlength=classes**2).view(classes, classes)


def accuracy(logits: fl.Tensor, target: fl.Tensor) -> float:
    return (logits.argmax(dim=-1) == target).float().mean().item()  # type: ignore[no-any-return]


logits, target = fl.randn(10, 3), fl.randint(0, 3, (10,))
matrix = confusion(logits.argmax(-1), target, 3)
recall = matrix.diagonal() / matrix.sum(1).clamp(min=1)
print(accuracy(logits, target), recall.shape, int(matrix.sum()))
