"""What is refused at the door, in words that name the argument and teach; what is let in; the small tools."""

import re

import numpy as np
import pytest
import torch
from posteriors import pool_and_targets, soft, softmax

import askwell
from askwell import arrays
from askwell.information import bounds
from askwell.seeds import rng_for

WITH_TARGETS = [
    askwell.epig,
    askwell.pairwise_epig,
    lambda probs, targets, **options: askwell.top_epig(probs, targets, 1, **options),
    askwell.epig_corrected,
    askwell.epig_quadratic,
    askwell.epig_error,
    lambda probs, targets, **options: askwell.signal(probs, targets, warn=False, **options),
    bounds.chi2_bound,
    bounds.data_processing_bound,
]
NAMES = ["epig", "pairwise_epig", "top_epig", "epig_corrected", "epig_quadratic", "epig_error", "signal", "chi2", "dpi"]
ALONE = [askwell.entropy, askwell.margin, askwell.least_confidence, askwell.bald]
LIBRARIES = {"numpy": np.asarray, "torch": torch.as_tensor}


@pytest.fixture(params=LIBRARIES)
def library(request):
    return LIBRARIES[request.param]


with_targets = pytest.mark.parametrize("call", WITH_TARGETS, ids=NAMES)
alone = pytest.mark.parametrize("call", ALONE)


def good():
    return pool_and_targets("soft", 5, 3, 4, 6)


def changed(index, value):
    """A good pool with one number replaced."""
    probs = good()[0]
    probs[index] = value
    return probs


WRONG = {
    "not_one": (2 * good()[0], r"PROBS must hold probabilities that sum to one over its last axis \(classes\), but "
                               r"PROBS\[0, 0\] sums to 2 .*Divide by the sum"),
    "one_row": (np.where(np.arange(5)[:, None, None] == 4, 0.1, good()[0]), r"PROBS\[4, 0\] sums to 0.6"),
    "negative": (changed((3, 2, 1), -0.25), r"PROBS must hold probabilities, but PROBS\[3, 2, 1\] is -0.25.*Logits"),
    "nan": (changed((4, 3, 5), np.nan), r"PROBS must hold probabilities, but PROBS\[4, 3, 5\] is nan.*diverged fit"),
    "inf": (changed((1, 0, 0), np.inf), r"PROBS.*PROBS\[1, 0\] sums to inf"),
    "minus_inf": (changed((1, 0, 0), -np.inf), r"PROBS\[1, 0, 0\] is -inf"),
    "log": (np.log(good()[0]), r"PROBS must hold probabilities, but PROBS\[0, 0, 0\] is -.*log=True"),
    "two_axes": (good()[0][:, 0], r"PROBS must have three axes \[inputs, draws, classes\], but its shape is \(5, 6\)"
                                  r".*array\[:, None, :\]"),
    "one_axis": (good()[0][0, 0], r"PROBS must have three axes .* shape is \(6,\)"),
    "four_axes": (good()[0][None], r"PROBS must have three axes .* shape is \(1, 5, 4, 6\)"),
    "no_draws": (good()[0][:, :0], r"PROBS must have at least one draw and one class, but its shape is \(5, 0, 6\)"),
    "no_classes": (good()[0][..., :0], r"PROBS must have at least one draw and one class.* \(5, 4, 0\)"),
    "integer": (np.ones((5, 4, 6), np.int64), r"PROBS must be an array of float32 or float64, but its dtype is int64"
                                              r".*labels are not probabilities"),
    "bool": (np.ones((5, 4, 6), bool), r"PROBS must be an array of float32 or float64, but its dtype is bool"),
    "half": (good()[0].astype(np.float16), r"PROBS must be an array of float32 or float64, but its dtype is float16"),
}  # fmt: skip
wrong = pytest.mark.parametrize(("array", "words"), WRONG.values(), ids=WRONG)


def refuses(words, name, call, *args, **options):
    __tracebackhide__ = True
    with pytest.raises(ValueError, match=f"(?s){words.replace('PROBS', name)}") as caught:
        call(*args, **options)
    assert re.search(rf"(?<!\w){name}\b", str(caught.value))  # the argument itself, not target_probs for probs


# ---- refusals ------------------------------------------------------------------------------------------------------


@wrong
@alone
def test_wrong_probs(call, array, words, either):
    for library in LIBRARIES.values():
        refuses(words, "probs", call, library(array))


@wrong
@with_targets
def test_wrong_pools(call, array, words, either):
    fitting = array.shape[1:] if array.ndim == 3 and 0 not in array.shape else (4, 6)
    for library in LIBRARIES.values():
        refuses(words, "probs", call, library(array), library(soft(rng_for(0, 0, "fit"), 3, *fitting)))


@wrong
@with_targets
def test_wrong_targets(call, array, words, either):
    fitting = array.shape[1:] if array.ndim == 3 and 0 not in array.shape else (4, 6)
    for library in LIBRARIES.values():
        refuses(words, "target_probs", call, library(soft(rng_for(0, 0, "fit"), 3, *fitting)), library(array))


@with_targets
def test_swapped_axes(call, library, either):
    probs, targets = good()
    swapped = [library(np.ascontiguousarray(a.swapaxes(1, 2))) for a in (probs, targets)]
    words = r"Axis 1 does sum to one, so the axes look like \[inputs, classes, draws\]: try (target_)?probs.swapaxes"
    with pytest.raises(ValueError, match=words):
        call(*swapped)


@alone
def test_swapped_axes_without_targets(call, library, either):
    probs, _ = good()
    refuses(r"the axes look like \[inputs, classes, draws\]", "probs", call, library(probs.swapaxes(1, 2)))
    refuses(r"the axes look like \[classes, \.\.\.\].*moveaxis", "probs", call, library(np.moveaxis(probs, -1, 0)))
    call(np.moveaxis(np.moveaxis(probs, -1, 0), 0, -1))  # the remedy that the message names


@with_targets
def test_unequal_draws_and_classes(call, library, either):
    probs, targets = good()
    words = r"probs and target_probs must have the same number of {}, but their shapes are .*same fitted posterior"
    with pytest.raises(ValueError, match=words.format(r"draws \(axis 1\)")):
        call(library(probs), library(targets[:, :3]))
    fewer = targets[..., :5] / targets[..., :5].sum(-1, keepdims=True)
    with pytest.raises(ValueError, match=words.format(r"classes \(axis 2\)")):
        call(library(probs), library(fewer))


@with_targets
def test_empty_targets(call, library, either):
    probs, targets = good()
    with pytest.raises(ValueError, match=r"target_probs must have at least one target, but its shape is \(0, 4, 6\)"):
        call(library(probs), library(targets[:0]))


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1.0, -1.0, 1.0], r"weights must be finite and not negative, but weights\[1\] is -1.0"),
        ([1.0, 1.0, np.nan], r"weights must be finite and not negative, but weights\[2\] is nan"),
        ([np.inf, 1.0, 1.0], r"weights must be finite and not negative, but weights\[0\] is inf"),
        ([0.0, 0.0, 0.0], r"weights must have at least one positive entry, but all 3 are zero. Pass None"),
        ([1.0, 1.0], r"weights must have one number per target, shape \(3,\), but its shape is \(2,\)"),
        ([1.0] * 5, r"weights must have one number per target.*not the candidates"),
        ([[1.0], [1.0], [1.0]], r"weights must have one number per target.*its shape is \(3, 1\)"),
        (["a", "b", "c"], r"weights must hold numbers"),
        ([True, False, True], r"weights must hold numbers"),
    ],
)
@pytest.mark.parametrize(
    "call", [call for call, name in zip(WITH_TARGETS, NAMES, strict=True) if name != "pairwise_epig"],
    ids=[name for name in NAMES if name != "pairwise_epig"],
)  # fmt: skip
def test_weights_are_refused(call, weights, words, library):
    probs, targets = (library(a) for a in good())
    with pytest.raises(ValueError, match=words):
        call(probs, targets, weights=weights)
    if not isinstance(weights[0], str):
        with pytest.raises(ValueError, match=words):
            call(probs, targets, weights=torch.tensor(weights))


@with_targets
def test_mixed_libraries(call, either):
    probs, targets = good()
    with pytest.raises(ValueError, match=r"same library and device, but probs is numpy, target_probs is torch on cpu"):
        call(probs, torch.as_tensor(targets))
    with pytest.raises(ValueError, match=r"but probs is torch on cpu, target_probs is numpy. Try tensor.numpy"):
        call(torch.as_tensor(probs), targets)


def test_a_size_beyond_the_pool(library, either):
    probs, targets = (library(a) for a in good())
    with pytest.raises(ValueError, match=r"size must be between 0 and the number of candidates, 5, but it is 6.*fewer"):
        askwell.top_epig(probs, targets, 6)


@with_targets
def test_wrong_logarithms(call, library, either):
    probs, targets = (np.log(a) for a in good())
    broken = probs.copy()
    broken[2, 1, 3] = np.nan
    refuses(
        r"log-probabilities, but PROBS\[2, 1, 3\] is nan", "probs", call, library(broken), library(targets), log=True
    )
    refuses(
        r"log-probabilities whose exponentials sum to one.*PROBS\[0, 0\] sums to 2",
        "target_probs", call, library(probs), library(targets + np.log(2)), log=True,
    )  # fmt: skip
    refuses("sum to one", "probs", call, library(np.exp(probs)), library(targets), log=True)


def test_the_place_of_a_fault_in_a_long_pool(library, either):
    """Found wherever it stands, and told in the numbers of the array that was given."""
    probs, targets = pool_and_targets("soft", 9000, 3, 4, 6, dtype="float32")
    for row in (0, 511, 512, 4095, 4096, 5000, 8999):
        broken = probs.copy()
        broken[row, 2] *= 1.5
        for call in (askwell.epig, askwell.bald, askwell.entropy):
            others = (library(targets),) if call is askwell.epig else ()
            with pytest.raises(ValueError, match=rf"probs\[{row}, 2\] sums to 1.5"):
                call(library(broken), *others)
        with pytest.raises(ValueError, match=rf"target_probs\[{row}, 2\] sums to 1.5"):
            askwell.epig(library(probs[:2]), library(broken))


# ---- what is let in ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("c", [2, 10, 1000])
def test_rounded_softmax_rows_are_welcome(c, library, either):
    logits = 5 * rng_for(0, c, "logits").normal(size=(20, 3, c))
    narrow = softmax(logits.astype(np.float32))
    assert narrow.dtype == np.float32
    for probs in (narrow, narrow.astype(np.float64), softmax(logits).astype(np.float32)):
        for call in ALONE:
            assert call(library(probs)).shape == (20,)
        for call in WITH_TARGETS if c < 1000 else [askwell.epig]:  # a million cells each
            assert call(library(probs[:1]), library(probs[1:2])) is not None


@pytest.mark.parametrize(("dtype", "fine", "off"), [("float32", 5e-5, 3e-4), ("float64", 5e-6, 3e-5)])
def test_tolerance_goes_by_dtype(dtype, fine, off, library, either):
    probs, targets = (a.astype(dtype) for a in good())
    for call in (askwell.epig, askwell.pairwise_epig, askwell.epig_quadratic, askwell.epig_error):
        call(library(probs * np.asarray(1 + fine, dtype)), library(targets))
        for factor in (1 + off, 1 - off):
            refuses("sum to one", "probs", call, library(probs * np.asarray(factor, dtype)), library(targets))
            refuses("sum to one", "target_probs", call, library(probs), library(targets * np.asarray(factor, dtype)))


def test_frames_become_arrays():
    class Frame:
        def __array__(self, dtype=None, copy=None):
            return good()[0]

    np.testing.assert_array_equal(askwell.bald(Frame()), askwell.bald(good()[0]))


# ---- tools ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("total", "size"), [(0, 3), (1, 3), (3, 3), (4, 3), (10, 1), (10, 100)])
def test_spans_cover_everything_once(total, size):
    cut = list(arrays.spans(total, size))
    assert [i for span in cut for i in range(total)[span]] == list(range(total))
    assert all(0 < span.stop - span.start <= size for span in cut)


def test_threads(monkeypatch):
    monkeypatch.delenv("ASKWELL_THREADS", raising=False)
    assert arrays.threads() >= 1
    monkeypatch.setenv("ASKWELL_THREADS", "7")
    assert arrays.threads() == 7


@pytest.mark.parametrize("asked", ["0", "-1", "two", "1.5", " 3 ", "²"])
def test_threads_must_be_a_whole_number(asked, monkeypatch):
    monkeypatch.setenv("ASKWELL_THREADS", asked)
    with pytest.raises(ValueError, match=f"ASKWELL_THREADS must be a whole number from 1, but it is {asked!r}"):
        arrays.threads()
    with pytest.raises(ValueError, match="ASKWELL_THREADS"):
        askwell.epig(*good())


@pytest.mark.parametrize("scale", [1e-320, 1e-300, 1e-9, 1.0, 1e300, 1.5e308 / 3])
def test_weights_sum_to_one_at_any_scale(scale):
    w = arrays.normalised_weights(np.array([1.0, 0, 3, 0.5, 0.5]) * scale, 5)
    assert w.dtype == np.float64
    np.testing.assert_allclose(w, [0.2, 0, 0.6, 0.1, 0.1], rtol=1e-15 if scale > 1e-310 else 1e-3)


def test_weights_beside_much_larger_ones():
    np.testing.assert_allclose(arrays.normalised_weights([1e-300, 1e300], 2), [0, 1], atol=1e-300)
    np.testing.assert_allclose(arrays.normalised_weights([1.7e308] * 3, 3), [1 / 3] * 3)


def test_weights_are_copied():
    assert arrays.normalised_weights(None, 3) is None
    given_ = np.array([1.0, 1.0])
    arrays.normalised_weights(given_, 2)[0] = 9
    assert given_.tolist() == [1, 1]
    assert arrays.normalised_weights(torch.tensor([1, 3]), 2).tolist() == [0.25, 0.75]
    assert arrays.normalised_weights(torch.tensor([1.0, 3.0], requires_grad=True), 2).tolist() == [0.25, 0.75]


def test_as_numpy_shares_memory():
    tensor = torch.ones(3)
    arrays.as_numpy(tensor)[0] = 5
    assert tensor[0] == 5
    array = np.ones(3)
    assert arrays.as_numpy(array) is array
    assert arrays.as_numpy(torch.ones(3, device="meta")) is None


def test_the_other_byte_order_is_converted():
    probs, targets = pool_and_targets("soft", 6, 4, 8, 3, dtype="float64")
    for dtype in ("f8", "f4"):
        foreign = [each.astype(f">{dtype}") for each in (probs, targets)]
        native = [each.astype(dtype) for each in (probs, targets)]
        found = askwell.epig(*foreign)
        assert found.dtype == np.dtype(dtype)
        np.testing.assert_array_equal(found, askwell.epig(*native))
        np.testing.assert_array_equal(askwell.top_epig(*foreign, 3)[0], askwell.top_epig(*native, 3)[0])
        np.testing.assert_array_equal(askwell.bald(foreign[0]), askwell.bald(native[0]))
    with pytest.raises(ValueError, match="float32 or float64"):
        askwell.bald(np.ones((2, 2, 2), ">i4"))


def test_several_labels_at_once_are_not_called_counts():
    sigmoids = np.full((2, 3, 4), 0.6)
    with pytest.raises(ValueError, match=r"multi-label, one sigmoid per class\), that is not supported.*two classes"):
        askwell.bald(sigmoids)
    with pytest.raises(ValueError, match="counts"):
        askwell.bald(np.full((2, 3, 4), 3.0))
