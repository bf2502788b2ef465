"""The paper's networks: the perceptron for tables and the BatchBALD network for 28 x 28 images."""

from typing import Any

from askwell.models.tensors import nn

__all__ = ["cnn", "mlp"]


def mlp(features: int, classes: int, *, width: int = 128, dropout: float = 0.1, input_dropout: bool = False) -> Any:
    """Three hidden layers of 128 ReLU, dropout 0.1 after the first and the second; logits `[n, c]` out.

    `input_dropout` drops inputs too, as the authors' code of 2023 did; the paper does not mention it.

    >>> import torch
    >>> mlp(36, 6)(torch.zeros(5, 36)).shape
    torch.Size([5, 6])
    """
    first = [nn.Dropout(dropout)] if input_dropout else []
    hidden = [nn.Linear(features, width), nn.ReLU(), nn.Dropout(dropout)]
    hidden += [nn.Linear(width, width), nn.ReLU(), nn.Dropout(dropout)]
    return nn.Sequential(*first, *hidden, nn.Linear(width, width), nn.ReLU(), nn.Linear(width, classes))


def cnn(classes: int, *, dropout: float = 0.5) -> Any:
    """Two 5 x 5 convolutions (32, 64), each with channel dropout, pooling, ReLU; 128 hidden units; logits `[n, c]` out.

    Images `[n, 1, 28, 28]`; `[n, 28, 28]` and `[n, 784]` are reshaped.

    >>> import torch
    >>> cnn(10)(torch.zeros(5, 28, 28)).shape
    torch.Size([5, 10])
    """
    blocks = [nn.Conv2d(1, 32, 5), nn.Dropout2d(dropout), nn.MaxPool2d(2), nn.ReLU()]
    blocks += [nn.Conv2d(32, 64, 5), nn.Dropout2d(dropout), nn.MaxPool2d(2), nn.ReLU()]
    head = [nn.Flatten(), nn.Linear(1024, 128), nn.Dropout(dropout), nn.ReLU(), nn.Linear(128, classes)]
    return nn.Sequential(nn.Flatten(), nn.Unflatten(1, (1, 28, 28)), *blocks, *head)
