"""`torch.utils.data._utils`: collating, fetching, what workers know, and what loaders of packages whose workers are processes ask for."""

import atexit

from flambeau.compat._torch.overlay._utils import ExceptionWrapper as ExceptionWrapper

HAS_NUMPY = True
MP_STATUS_CHECK_INTERVAL = 5.0  # seconds between two looks at whether the other side lives
python_exit_status = False  # whether the interpreter ends


def _set_python_exit_flag() -> None:
    global python_exit_status
    python_exit_status = True


atexit.register(_set_python_exit_flag)
