"""Files that are damaged, foreign, made with ill will, or of a later version: one error that says so, and nothing is executed."""

import io
import json
import pickle
import random
import struct
import tracemalloc
import zipfile
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest

import chainrule as cr
from chainrule.errors import CheckpointError
from chainrule.io import archive
from tests.io.things import Adam, Thing


@pytest.fixture
def path(tmp_path):
    return tmp_path / "checkpoint.npz"


def good():
    """A small checkpoint as bytes."""
    buffer = io.BytesIO()
    things = {"model": {"kind": "Thing", "state": {"dict": [["w", {"array": 0}]]}}, "epoch": {"kind": None, "state": 3}}
    archive.write(buffer, {"format": "chainrule checkpoint", "version": 1, "things": things}, ["w"], [np.ones(3)])
    return buffer.getvalue()


def sealed(content):
    """The content with a digest that is right: what only ill will, not damage, would make."""
    return content[:-32] + blake2b(content[:-32], digest_size=16).hexdigest().encode()


def refused(path, content, match=r"checkpoint\.npz"):
    path.write_bytes(content)
    thing = Thing(None)
    with pytest.raises(CheckpointError, match=match) as caught:
        cr.io.load_checkpoint(path, model=thing)
    assert thing.loaded == 0
    assert "io.load_checkpoint: " in str(caught.value)
    assert len(str(caught.value)) < 600
    assert path.read_bytes() == content


def test_this_one_is_good(path):
    path.write_bytes(good())
    assert cr.io.load_checkpoint(path)["model"]["w"].tolist() == [1, 1, 1]
    assert sealed(good()) == good()


# ---------------------------------------------------------------- damage
def test_every_byte_counts(path):
    content = good()
    for position in range(len(content)):
        damaged = bytearray(content)
        damaged[position] ^= 1 << position % 8
        refused(path, bytes(damaged), "damaged|is no zip|no chainrule checkpoint")


def test_cut_short_or_longer(path):
    content = good()
    for length in range(1, len(content), 3):
        refused(path, content[:length], "damaged|is no zip")
    refused(path, content + b"\0", "damaged")
    refused(path, content[1:], "damaged|is no zip")
    refused(path, content + content, "damaged")
    refused(path, content[:100] + content[164:], "damaged")
    refused(path, content[:-40], "damaged")


def test_damage_in_a_large_array_is_found(path):
    cr.io.save_checkpoint(path, model=Adam([np.ones(10**6)]))
    with path.open("r+b") as file:
        file.seek(5_000_000)
        file.write(b"\1")
    refused(path, path.read_bytes(), "checksum is not that of its contents")


def test_empty(path):
    refused(path, b"", "is empty")


# ---------------------------------------------------------------- something else
def zipped(**members):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        for name, content in members.items():
            file.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize(
    "content", [b"epoch,loss\n", b"PK", b"PK\3\4" + bytes(100), b"\x89PNG\r\n", bytes(1000), b"\x93NUMPY\1\0"]
)
def test_something_else(path, content):
    refused(path, content, "is no zip|is damaged or foreign")


def test_a_zip_of_something_else(path):
    refused(path, zipped(**{"data.pkl": b"..."}), "holds 'data.pkl', which is no array")
    refused(path, zipped(), "holds arrays without a manifest of chainrule, no chainrule checkpoint")


def test_numpys_arrays_and_our_weights(path):
    np.savez(path, w=np.ones(3))
    refused(path, path.read_bytes(), "holds arrays without a manifest of chainrule, no chainrule checkpoint")
    cr.io.save(path, {"w": np.ones(3)})
    refused(path, path.read_bytes(), "holds chainrule weights, no chainrule checkpoint · try io.load")
    path.write_bytes(good())
    with pytest.raises(
        CheckpointError, match=r"holds chainrule checkpoint, no chainrule weights · try io.load_checkpoint"
    ):
        cr.io.load(path)


def test_checkpoint_of_pytorch(path):
    torch = pytest.importorskip("torch")
    torch.save({"w": torch.ones(3)}, path)
    refused(path, path.read_bytes(), "which is no array")


class Trap:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


def test_nothing_is_executed(path, tmp_path):
    sprung = tmp_path / "sprung"
    refused(path, pickle.dumps(Trap(sprung)), "is no zip")
    objects = io.BytesIO()
    np.save(objects, np.array([Trap(sprung)], dtype=object), allow_pickle=True)
    manifest = {"format": "chainrule checkpoint", "version": 1, "members": ["w"], "things": {}}
    for name in ("w.npy", "chainrule.json"):
        refused(path, zipped(**{"chainrule.json": json.dumps(manifest), name: objects.getvalue()}), "damaged")
    content = zipped(**{"w.npy": objects.getvalue(), "chainrule.json": json.dumps(manifest)})
    refused(path, sealed_zip(content), "an array of dtype object")
    assert not sprung.exists()


def sealed_zip(content):
    """A zip of another's making with our comment at its end, and the right digest in it."""
    comment = archive.SEAL + b"0" * 32
    return sealed(content[:-2] + struct.pack("<H", len(comment)) + comment)


# ---------------------------------------------------------------- a later version
def test_a_later_version(path):
    buffer = io.BytesIO()
    manifest = {"format": "chainrule checkpoint", "version": 2, "things": {"shape of": ["things to come"]}}
    archive.write(buffer, manifest, ["w"], [np.ones(3)])
    refused(path, buffer.getvalue(), "written by a newer chainrule: format 2, and this one reads up to 1")


# ---------------------------------------------------------------- ill will
def with_things(**things):
    buffer = io.BytesIO()
    arrays = [np.ones(3), np.arange(3), np.array(["a"])]
    archive.write(buffer, {"format": "chainrule checkpoint", "version": 1, "things": things}, ["w", "n", "t"], arrays)
    return buffer.getvalue()


STATES = [{"array": 3}, {"array": -4}, {"array": "w"}, {"array": None}, {"int": "x"}, {"int": 3}, {"float": "00"}, {"float": 1}, {"tuple": 3},
          {"dict": [1]}, {"dict": [[{"dict": []}, 1]]}, {"dict": {"a": 1}}, {"scalar": 5}, {"tensor": 0}, {"tensor": [0]}, {"tensor": [1, True]}, {"tensor": [2, False]}, {"eval": "1"}, {},
          {"array": 0, "tuple": []}, {"generator": 3}, {"generator": {"dict": [["bit_generator", "RandomState"]]}},
          {"generator": {"dict": [["bit_generator", "PCG64"]]}}, {"generator": {"dict": [["bit_generator", ["PCG64"]]]}}, {"Tensor": [0, True]},
          {"generator": {"dict": [["bit_generator", "PCG64"], ["state", {"dict": [["state", -1], ["inc", 1]]}], ["has_uint32", 0], ["uinteger", 0]]}}]  # fmt: skip


@pytest.mark.parametrize("state", STATES, ids=map(str, STATES))
def test_states_that_are_not_of_our_making(path, state):
    refused(path, with_things(model={"kind": "Thing", "state": state}), "damaged or foreign")


@pytest.mark.parametrize("things", [{"model": 3}, {"model": {}}, {"model": {"kind": None}}, {"model": []}])
def test_things_that_are_not_of_our_making(path, things):
    refused(path, with_things(**things), "damaged or foreign")


def test_only_generators_are_made(path):
    """Not whatever numpy.random has under the name that a file gives."""
    for name in ("seed", "RandomState", "Generator", "BitGenerator", "mtrand"):
        state = {"generator": {"dict": [["bit_generator", name]]}}
        refused(path, with_things(model={"kind": "Thing", "state": state}), f"a generator {name}")


def test_json_nested_without_end(path):
    text = '{"format": "chainrule checkpoint", "version": 1, "things": ' + "[" * 200_000 + "]" * 200_000 + "}"
    refused(path, sealed_zip(zipped(**{"chainrule.json": text})), "damaged or foreign")


def test_any_byte_changed_with_ill_will(path):
    """The digest made right again: whatever comes of it, it is a checkpoint or an error of ours."""
    content, chance = good(), random.Random(0)
    loaded = 0
    for _ in range(600):
        changed = bytearray(content)
        for _ in range(chance.choice([1, 1, 1, 2, 8])):
            changed[chance.randrange(len(content))] = chance.choice([0, 1, 0x7F, 0xFF, chance.randrange(256)])
        path.write_bytes(sealed(bytes(changed)))
        try:
            cr.io.load_checkpoint(path)
            loaded += 1
        except CheckpointError:
            pass
    assert 0 < loaded < 600


def header(shape, dtype="<f8"):
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": dtype, "fortran_order": False, "shape": shape})
    return buffer.getvalue()


HEADERS = {
    "huge": header((10**15,)), "overflowing": header((10**10, 10**10, 10**10)), "negative": header((-1,)), "two negative": header((-1, -3)) + bytes(24),
    "nothing times much": header((0, 10**30)), "objects": header((1,), "|O") + bytes(8), "records": header((1,), "<f8,<f8") + bytes(16),
    "no entries of no size": header((10**15,), "<U0"), "short": header((3,)) + bytes(23), "long": header((3,)) + bytes(25),
    "version": b"\x93NUMPY\3\0" + header((1,))[8:] + bytes(8), "code": b"\x93NUMPY\1\0" + struct.pack("<H", 20) + b"__import__('os')    ",
    "deep": b"\x93NUMPY\1\0" + struct.pack("<H", 9000) + b"-" * 8999 + b"1", "brackets": b"\x93NUMPY\1\0" + struct.pack("<H", 9000) + b"(" * 9000,
    "long header": b"\x93NUMPY\2\0" + struct.pack("<I", 2**31 - 1) + b"{}", "none": b"", "no magic": bytes(200),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADERS)
def test_sizes_are_held_against_the_file_before_memory_is_taken(path, name):
    manifest = {"format": "chainrule checkpoint", "version": 1, "members": ["w"], "things": {}}
    content = sealed_zip(zipped(**{"w.npy": HEADERS[name], "chainrule.json": json.dumps(manifest)}))
    tracemalloc.start()
    try:
        refused(path, content, "damaged or foreign")
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_bombs(path):
    """A member that claims to be larger than the file, members that share their bytes, and zeros by the gigabyte."""
    claims = bytearray(zipped(**{"w.npy": header((1,)) + bytes(8)}))
    entry = claims.index(b"PK\1\2")
    claims[entry + 20 : entry + 28] = struct.pack("<II", 2**31, 2**31)
    many = bytearray(zipped(**{"w.npy": header((10**5,)) + bytes(8 * 10**5)}))
    entry, end = many.index(b"PK\1\2"), many.index(b"PK\5\6")
    copies = 1000
    shared = many[:entry] + many[entry:end] * copies + many[end:]
    shared[-14:-6] = struct.pack("<HHI", copies, copies, copies * (end - entry))
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file, file.open("w.npy", "w") as member:
        member.write(header((5 * 10**7,)))
        for _ in range(50):
            member.write(bytes(8 * 10**6))
    tracemalloc.start()
    try:
        for content in (bytes(claims), bytes(shared), packed.getvalue()):
            refused(path, content, "larger than it can hold")
            refused(path, sealed_zip(content), "larger than it can hold|damaged")
            with pytest.raises(CheckpointError, match="larger than it can hold"):
                path.write_bytes(content), cr.io.load(path)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()
