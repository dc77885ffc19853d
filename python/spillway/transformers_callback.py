"""See callbacks.py."""

from transformers import TrainerCallback

from .callbacks import Since


class TransformersCallback(TrainerCallback):
    """Adds to each log of a transformers.Trainer, and to state.log_history.

    Callbacks that report elsewhere (TensorBoard, Weights & Biases) run before those of
    Trainer(callbacks=[...]): for them it has to be the first,
    trainer.callback_handler.callbacks.insert(0, TransformersCallback()).
    """

    def __init__(self):
        self._since = None

    def on_train_begin(self, args, state, control, **kwargs):
        self._since = Since()

    def on_log(self, args, state, control, logs=None, **kwargs):
        if self._since is None or logs is None or "loss" not in logs:  # an evaluation, or the end
            return
        values = self._since.take()
        logs.update(values)
        if state.log_history:  # a copy, made before callbacks are asked
            state.log_history[-1].update(values)
