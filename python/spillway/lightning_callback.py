"""See callbacks.py."""

import sys

if "pytorch_lightning" in sys.modules and "lightning" not in sys.modules:
    from pytorch_lightning import Callback  # the same under its older name: trainers take their own
else:
    from lightning.pytorch import Callback

from .callbacks import Since


class LightningCallback(Callback):
    """Logs at the end of each training batch, through LightningModule.log_dict, with any logger.

    on_progress_bar: whether the progress bar shows them, too.
    """

    def __init__(self, on_progress_bar=False):
        self._on_progress_bar = on_progress_bar
        self._since = None

    def on_train_start(self, trainer, pl_module):
        self._since = Since()

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        values = self._since.take()
        if values:
            pl_module.log_dict({key: float(value) for key, value in values.items()},
                               on_step=True, on_epoch=False, prog_bar=self._on_progress_bar)
