"""Files that cannot be written or read: suffixes, names, folders, damage, what is no checkpoint."""

import contextlib
import sys
import tempfile
import zipfile
from pathlib import Path
from unittest import mock

import numpy as np

import chainrule as cr
from tests.errors.snapshots import case


def in_a_folder(provoke):
    """In a new folder, so that messages name files without it."""

    def inside():
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            provoke()

    inside.__name__ = provoke.__name__
    return inside


# ---------------------------------------------------------------- weights
@case
@in_a_folder
def weights_in_a_folder_that_does_not_exist():
    cr.io.save("results/model.npz", {"w": np.ones(2)})


@case
@in_a_folder
def weights_instead_of_a_folder():
    Path("model.npz").mkdir()
    cr.io.save("model.npz", {"w": np.ones(2)})


@case
@in_a_folder
def weights_on_a_full_disk():
    with mock.patch("os.fsync", side_effect=OSError(28, "No space left on device")):
        cr.io.save("model.npz", {"w": np.ones(2)})


@case
@in_a_folder
def weights_of_another_format():
    cr.io.load("model.pt")


@case
@in_a_folder
def weights_that_are_not_there():
    cr.io.load("model.npz")


@case
@in_a_folder
def weights_and_path_swapped():
    cr.io.save({"w": np.ones(2)}, "model.npz")


@case
@in_a_folder
def weights_without_names():
    cr.io.save("model.npz", [np.ones(2)])


@case
@in_a_folder
def weights_in_a_nested_dictionary():
    cr.io.save("model.npz", {"layer": {"w": np.ones(2)}})


@case
@in_a_folder
def weights_named_by_numbers():
    cr.io.save("model.npz", {0: np.ones(2)})


@case
@in_a_folder
def weights_with_a_line_break_in_the_name():
    cr.io.save("model.npz", {"a\nb": np.ones(2)})


@case
@in_a_folder
def weights_of_a_dtype_that_safetensors_has_not():
    cr.io.save("model.safetensors", {"w": np.ones(2, complex)})


@case
@in_a_folder
def weights_with_a_number_as_metadata():
    cr.io.save("model.npz", {}, metadata={"epoch": 3})


@case
@in_a_folder
def weights_cut_short():
    cr.io.save("model.npz", {"w": np.ones(2)})
    Path("model.npz").write_bytes(Path("model.npz").read_bytes()[:-7])
    cr.io.load("model.npz")


@case
@in_a_folder
def weights_with_a_bit_flipped():
    cr.io.save("model.npz", {"w": np.ones(2)})
    content = bytearray(Path("model.npz").read_bytes())
    content[200] ^= 1
    Path("model.npz").write_bytes(content)
    cr.io.load("model.npz")


@case
@in_a_folder
def weights_that_are_a_text():
    Path("model.npz").write_text("epoch,loss\n")
    cr.io.load("model.npz")


@case
@in_a_folder
def safetensors_is_missing():
    with mock.patch.dict(sys.modules, {"safetensors": None, "safetensors.numpy": None}):
        cr.io.save("model.safetensors", {"w": np.ones(2)})


# ---------------------------------------------------------------- checkpoints
class Model:
    """As much of a model as a checkpoint needs."""

    def state_dict(self):
        return {"w": np.ones(2)}

    def load_state_dict(self, state):
        if state["w"].shape != (2,):
            raise cr.errors.ShapeError("load_state_dict: 'w' has another shape")


@case
@in_a_folder
def checkpoint_of_a_set():
    cr.io.save_checkpoint("checkpoint.npz", loader={"seen": [{1, 2}]})


@case
@in_a_folder
def checkpoint_of_what_contains_itself():
    history: list = []
    history.append(history)
    cr.io.save_checkpoint("checkpoint.npz", history=history)


@case
@in_a_folder
def checkpoint_of_another_format():
    cr.io.save_checkpoint("checkpoint.pt", epoch=3)


@case
@in_a_folder
def checkpoint_without_a_name():
    cr.io.save_checkpoint("checkpoint.npz", model=Model(), epoch=3)
    cr.io.load_checkpoint("checkpoint.npz", ema=Model())


@case
@in_a_folder
def checkpoint_loaded_into_a_number():
    cr.io.save_checkpoint("checkpoint.npz", epoch=3)
    cr.io.load_checkpoint("checkpoint.npz", epoch=0)


@case
@in_a_folder
def checkpoint_of_a_value_for_a_model():
    cr.io.save_checkpoint("checkpoint.npz", model=3)
    cr.io.load_checkpoint("checkpoint.npz", model=Model())


@case
@in_a_folder
def checkpoint_of_another_generator():
    cr.io.save_checkpoint("checkpoint.npz", rng=np.random.default_rng(0))
    cr.io.load_checkpoint("checkpoint.npz", rng=np.random.Generator(np.random.MT19937(0)))


@case
@in_a_folder
def checkpoint_that_a_model_refuses():
    other = Model()
    other.state_dict = lambda: {"w": np.ones(3)}
    cr.io.save_checkpoint("checkpoint.npz", model=other)
    cr.io.load_checkpoint("checkpoint.npz", model=Model())


@case
@in_a_folder
def checkpoint_that_holds_weights():
    cr.io.save("model.npz", {"w": np.ones(2)})
    cr.io.load_checkpoint("model.npz")


@case
@in_a_folder
def checkpoint_that_numpy_wrote():
    np.savez("arrays.npz", w=np.ones(2))
    cr.io.load_checkpoint("arrays.npz")


@case
@in_a_folder
def checkpoint_of_a_later_version():
    from chainrule.io import archive

    with Path("checkpoint.npz").open("w+b") as file:
        archive.write(file, {"format": "chainrule checkpoint", "version": 2}, [], [])
    cr.io.load_checkpoint("checkpoint.npz")


@case
@in_a_folder
def checkpoint_that_is_empty():
    Path("checkpoint.npz").touch()
    cr.io.load_checkpoint("checkpoint.npz")


@case
@in_a_folder
def checkpoint_that_is_a_zip_of_a_pickle():
    with zipfile.ZipFile("checkpoint.npz", "w") as file:
        file.writestr("archive/data.pkl", "")
    cr.io.load_checkpoint("checkpoint.npz")


@case
@in_a_folder
def weights_with_objects():
    np.savez("objects.npz", w=np.array([None]))
    cr.io.load("objects.npz")
