"""Keras: weights by layer."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from hyperchunk.frames import attributes
from hyperchunk.typing import Array

if TYPE_CHECKING:
    from hyperchunk.group import Group
    from hyperchunk.objects import HLObject

#: Values of a variable.
Weight: TypeAlias = Array | np.generic
#: Weights of a layer: by their names, or in the order of the variables; or one weight of a file without layers.
Weights: TypeAlias = dict[str, dict[str, Weight] | list[Weight] | Weight]
#: Maximum depth of layers in layers.
_MAX_DEPTH = 64


def read(found: HLObject) -> Weights:
    """Returns the weights of a Keras file as NumPy arrays: a dictionary by the paths of layers, which has a dictionary
    by the names of weights or, for Keras 3, a list of weights in the order of the variables.

    Example:
        >>> weights = hyperchunk.frames.read(hyperchunk.open("model.weights.h5"))  # doctest: +SKIP
        >>> weights["layers/dense"][0].shape  # doctest: +SKIP
        (784, 128)
    """
    from hyperchunk.group import Group

    assert isinstance(found, Group)
    if "layer_names" in found.attrs:
        return _layers(found)
    if isinstance(weights := found.get("model_weights"), Group):
        return _layers(weights)
    if "weight_names" in found.attrs:
        return {**_weights(found)}
    made: Weights = {}
    _variables(found, "", made, 0)
    return made


def _layers(group: Group) -> Weights:
    """Returns the weights of Keras 2: `layer_names` lists groups, `weight_names` of each its datasets."""
    names = attributes.texts(group, "layer_names") or []
    return {name: _weights(group.group(name)) for name in names}


def _weights(group: Group) -> dict[str, Weight]:
    return {name: group.dataset(name)[()] for name in attributes.texts(group, "weight_names") or []}


def _variables(group: Group, path: str, made: Weights, depth: int) -> None:
    """Collects the variables of Keras 3: datasets ``0``, ``1``, … of groups `vars`."""
    from hyperchunk.dataset import Dataset
    from hyperchunk.group import Group

    if depth > _MAX_DEPTH:
        return
    for name, member in group.items():
        if not isinstance(member, Group):
            continue
        if name == "vars":
            numbered = [(key, data) for key, data in member.items() if isinstance(data, Dataset)]
            numbered.sort(key=lambda pair: (len(pair[0]), pair[0]))
            if numbered:
                made[path or "."] = [data[()] for _, data in numbered]
        else:
            _variables(member, f"{path}/{name}" if path else name, made, depth + 1)
