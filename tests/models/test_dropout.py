"""Dropout networks: draws are fixed, and everything fast equals a loop over the draws."""

import copy
import pickle
import subprocess
import sys
import threading
import time
import tracemalloc
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.sparse import csr_matrix

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from askwell import bald  # noqa: E402
from askwell.models import passes as ways  # noqa: E402
from askwell.models import tensors  # noqa: E402
from askwell.models.dropout import DropoutModel, gradient_embeddings  # noqa: E402
from askwell.models.masks import Affine, Before, FixedDropout, FixedDropoutConv, Head, SlicedMaxPool, kept_features  # noqa: E402
from askwell.models.networks import cnn, mlp  # noqa: E402
from askwell.models.training import ModernTraining, PaperTraining, TrainingTask  # noqa: E402
from askwell.seeds import rng_for  # noqa: E402
from askwell.testing import check_model  # noqa: E402

QUICK = ModernTraining(steps=10)
KINDS = [nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.Dropout3d, nn.AlphaDropout, nn.FeatureAlphaDropout]


@pytest.fixture(autouse=True)
def _seeded_on_one_thread():
    """Templates have the same weights in every run; and nets as small as these only wait for a second thread."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        yield
    torch.set_num_threads(before)


class Residual(nn.Module):
    """A skip past the first dropout layer, and one layer used twice: what is shared must not be, or shapes clash."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.last = nn.Linear(4, 8), nn.Linear(8, 8), nn.Linear(8, 4)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        hidden = self.first(x)
        hidden = hidden + self.dropout(torch.relu(self.second(hidden)))
        return self.last(self.dropout(hidden))


class Texts(nn.Module):
    """As Hugging Face makes them: takes ids and a mask by name, gives an object with logits."""

    def __init__(self, classes=3):
        super().__init__()
        self.embed, self.head = nn.Embedding(20, 8), nn.Linear(8, classes)
        self.dropout = nn.Dropout(0.3)

    def forward(self, input_ids, attention_mask):
        words = self.dropout(self.embed(input_ids))  # [n, t, h]
        mean = (words * attention_mask[..., None]).sum(1) / attention_mask.sum(1, keepdim=True)
        return SimpleNamespace(logits=self.head(self.dropout(mean)))


def ask_texts(net, ids):
    return net(input_ids=ids, attention_mask=(ids > 0).float()).logits


def blobs(n=30, shape=(4,), c=3, seed=0, apart=1.0):
    rng = rng_for(seed, 0, "blobs")
    y = np.arange(n) % c
    return (apart * rng.normal(size=(c, *shape))[y] + rng.normal(size=(n, *shape))).astype(np.float32), y


def bars(n, seed=0):
    """Images of a broad bar on noise, in one of three places: what convolutions and pooling can tell apart."""
    x, y = blobs(n, (28, 28), seed=seed, apart=0.0)
    for row, place in zip(x, y, strict=True):
        row[9 * place : 9 * place + 9] += 2
    return x, y


def small_net(kind=nn.Dropout, p=0.4):
    """The dropout layer sees [n, c, t], [n, c, h, w] or [n, c, d, h, w], as it likes."""
    room = {nn.Dropout1d: (4, 2), nn.Dropout3d: (2, 2, 2, 1)}.get(kind, (2, 2, 2))
    start = [nn.Linear(4, 8), nn.SELU(), nn.Unflatten(1, room), kind(p), nn.Flatten()]
    return nn.Sequential(
        *start, nn.Linear(8, 8), nn.ReLU(), kind(p) if kind is nn.Dropout else nn.Dropout(p), nn.Linear(8, 3)
    )


def image_net(*, padding=1, stride=2, bias=True):
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.Dropout2d(0.5), nn.MaxPool2d(2), nn.ReLU(), nn.BatchNorm2d(4),
        nn.Conv2d(4, 5, 3), nn.Dropout2d(0.3), nn.AvgPool2d(2, 1), nn.LeakyReLU(), nn.Identity(),
        nn.Conv2d(5, 6, (3, 2), padding=padding, stride=stride, bias=bias),
        nn.Dropout2d(0.5), nn.ReLU(), nn.Flatten(), nn.LazyLinear(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 3),
    )  # fmt: skip


def deep_image_net(**options):
    """Channel dropout comes first right in front of a convolution: the one that is taken apart."""
    return nn.Sequential(*list(image_net(**options))[6:])


def fit(module, x=None, y=None, *, seed=0, training=QUICK, **options):
    x, y = blobs() if x is None else (x, y)
    return DropoutModel(module, training=training, **options).fit(x, y, rng=rng_for(seed, 0, "fit"))


class ByHand(nn.Module):
    """What FixedDropout must do, for one draw only: multiply with the mask of that draw, written with loops."""

    def __init__(self, layer, draw, seed):
        super().__init__()
        self.layer, self.draw, self.seed, self.calls = layer, draw, seed, 0

    def forward(self, x):
        shape = x.shape[1:2] if self.layer.channels else x.shape[1:]
        mask = kept_features(self.seed, (self.layer.position, self.calls), [self.draw], shape, rate=self.layer.rate)[0]
        mask = torch.from_numpy(mask.reshape(*shape, *[1] * (x.ndim - 1 - len(shape)))).float()
        self.calls += 1
        if not self.layer.alpha:
            return torch.stack([row * mask / (1 - self.layer.rate) for row in x])
        low, p = -1.7580993408473766, self.layer.rate
        a = ((1 - p) * (1 + p * low**2)) ** -0.5
        return torch.stack([a * (row * mask + low * (1 - mask)) - a * low * p for row in x])


def swapped(net, change):
    """A copy with every layer that `change` has an answer for replaced."""
    net = copy.deepcopy(net)
    made = {}
    for parent in list(net.modules()):
        for name, layer in parent._modules.items():
            if (new := change(layer)) is not None:
                parent._modules[name] = made.setdefault(id(layer), new)
    return net


def by_hand(layer, draw, seed):
    """The layers that stand for a rewritten one, with the masks of one draw; None for a layer that is as it was."""
    if isinstance(layer, FixedDropoutConv):
        pool = [] if layer.pool is None else [nn.MaxPool2d(layer.pool.window)]
        return nn.Sequential(ByHand(layer.dropout, draw, seed), layer.conv, *pool)
    if isinstance(layer, SlicedMaxPool):
        return nn.MaxPool2d(layer.window)
    if isinstance(layer, Head):
        return layer.linear
    if isinstance(layer, Affine):
        return nn.Sequential(layer.linear, nn.ReLU()) if layer.relu else layer.linear
    if isinstance(layer, Before):
        return nn.Sequential(*[by_hand(part, draw, seed) or part for part in layer])
    return ByHand(layer, draw, seed) if isinstance(layer, FixedDropout) else None


def one_by_one(posterior, x, ask=None):
    """The draws in a loop: k separate forward passes with that draw's masks."""
    found = []
    for draw in range(posterior.draws):
        net = swapped(posterior.passes.net, lambda layer, draw=draw: by_hand(layer, draw, posterior.seed))
        with torch.no_grad():
            found.append((ask or (lambda net, x: net(x)))(net, torch.as_tensor(x)).softmax(-1))
    return torch.stack(found, 1).numpy()


# ---- the contract --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_of_dropout_keeps_the_contract(kind):
    check_model(DropoutModel(small_net(kind), training=QUICK), processes=False)


@pytest.mark.parametrize(
    "net", [mlp(4, 3), mlp(4, 3, input_dropout=True), Residual()], ids=["mlp", "input", "residual"]
)
def test_nets_keep_the_contract(net):
    check_model(DropoutModel(net, training=QUICK), processes=False)


@pytest.mark.parametrize("make", [image_net, deep_image_net])
def test_convolutions_keep_the_contract(make):
    x, y = blobs(20, (1, 16, 16)) if make is image_net else blobs(20, (5, 7, 7))
    check_model(DropoutModel(make(), training=QUICK), x=x, y=y, processes=False)


def test_the_papers_cnn_keeps_the_contract():
    x, y = blobs(12, (28, 28))
    check_model(DropoutModel(cnn(4), training=ModernTraining(steps=2), draws=10), x=x, y=y, processes=False)


def test_the_contract_holds_in_another_process():
    check_model(DropoutModel(mlp(4, 3), training=QUICK, draws=10))


def test_a_transformer_keeps_the_contract():
    """Torch's short cut for eval mode goes past the dropout layers."""
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.3, batch_first=True)
    net = nn.Sequential(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Flatten(), nn.Linear(12, 3))
    x, y = blobs(20, (3, 4))
    check_model(DropoutModel(net, training=QUICK), x=x, y=y, processes=False)
    assert bald(fit(net, x, y).predict(x)).max() > 1e-4


@dataclass(frozen=True)
class PerRow:
    """Ordinary Monte Carlo dropout, as people write it."""

    net: nn.Module
    classes: tuple

    def predict(self, x):
        with torch.no_grad():
            return torch.stack([self.net(torch.as_tensor(x)).softmax(-1) for _ in range(20)], 1).numpy()


class PerRowModel:
    def fit(self, x, y, *, rng, classes=None):
        return PerRow(
            nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 4)).train(), tuple(classes)
        )


def test_ordinary_dropout_does_not():
    with pytest.raises(AssertionError, match="draw k must be the same parameters"):
        check_model(PerRowModel(), processes=False)


# ---- fast equals slow ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_draws_are_separate_passes(kind):
    posterior = fit(small_net(kind), draws=7)
    x, _ = blobs(9, seed=1)
    np.testing.assert_allclose(posterior.predict(x), one_by_one(posterior, x), atol=2e-6)


@pytest.mark.parametrize("options", [{}, {"padding": 0, "stride": 1}, {"bias": False, "padding": (0, 2)}])
@pytest.mark.parametrize("make", [image_net, deep_image_net])
def test_rewritten_convolutions_are_separate_passes(make, options):
    x, y = blobs(12, (1, 16, 16)) if make is image_net else blobs(12, (5, 7, 7))
    posterior = fit(make(**options), x, y, draws=5)
    assert posterior.passes.shared
    assert any(isinstance(layer, FixedDropoutConv) for layer in posterior.passes.net.modules())
    np.testing.assert_allclose(posterior.predict(x), one_by_one(posterior, x), atol=5e-6)


@pytest.mark.parametrize(
    ("window", "options"),
    [(2, {}), ((3, 2), {"stride": (1, 2)}), ((1, 2), {"padding": (2, 1)}), (2, {"stride": 3, "bias": False})],
)
def test_pooled_convolutions_are_separate_passes(window, options):
    """The pooling behind a convolution that is taken apart, and one before the first dropout, by slices."""
    behind = nn.Sequential(nn.Dropout2d(0.3), nn.ReLU(), nn.Conv2d(5, 6, (3, 2), **options), nn.MaxPool2d(window))
    net = nn.Sequential(nn.Conv2d(2, 5, 1), nn.MaxPool2d(2), *behind, nn.Dropout2d(0.2), nn.Flatten(), nn.LazyLinear(3))
    x, y = blobs(12, (2, 25, 23))
    posterior = fit(net, x, y, draws=5)
    (conv,) = [layer for layer in posterior.passes.net.modules() if isinstance(layer, FixedDropoutConv)]
    assert conv.pool is not None
    assert isinstance(posterior.passes.net[0][1], SlicedMaxPool)
    np.testing.assert_allclose(posterior.predict(x), one_by_one(posterior, x), atol=5e-6)


@pytest.mark.parametrize("options", [{"stride": 1}, {"padding": 1}, {"dilation": 2}, {"ceil_mode": True}])
def test_other_poolings_are_torchs(options):
    net = nn.Sequential(
        nn.Dropout2d(0.3), nn.Conv2d(2, 6, 3), nn.MaxPool2d(2, **options), nn.Flatten(), nn.LazyLinear(3)
    )
    x, y = blobs(12, (2, 9, 9))
    posterior = fit(net, x, y, draws=5)
    assert posterior.passes.shared
    assert not any(isinstance(layer, SlicedMaxPool) for layer in posterior.passes.net.modules())
    np.testing.assert_allclose(posterior.predict(x), one_by_one(posterior, x), atol=5e-6)


@pytest.mark.parametrize("make", [cnn, small_net])
def test_predictions_in_bfloat16_are_those_in_float32_but_for_the_rounding(make):
    x, y = blobs(60, (28, 28)) if make is cnn else blobs(60)
    module = cnn(3) if make is cnn else small_net()
    exact, rounded = (fit(module, x, y, draws=20, bfloat16=each) for each in (False, True))
    assert {part.dtype for part in rounded.passes.net.parameters()} == {torch.bfloat16}
    a, b = exact.predict(x), rounded.predict(x)
    assert b.dtype == np.float32
    assert 0 < np.abs(a - b).max() < 0.05
    np.testing.assert_allclose(b.sum(axis=2), 1, atol=1e-5)
    np.testing.assert_allclose(gradient_embeddings(rounded, x), gradient_embeddings(exact, x), atol=0.1)


def test_rewriting_changes_nothing(monkeypatch):
    """Against the net as the user wrote it: the rewrites keep each layer's masks."""
    x, y = blobs(12, (28, 28))
    fast = fit(cnn(3), x, y, draws=6).predict(x)
    monkeypatch.setattr(ways, "_agrees", lambda *_: False)
    slow = fit(cnn(3), x, y, draws=6)
    assert not slow.passes.shared
    np.testing.assert_allclose(fast, slow.predict(x), atol=2e-6)


def test_a_skip_past_the_dropout_repeats_the_inputs():
    posterior = fit(Residual(), draws=6)
    assert not posterior.passes.shared
    x, _ = blobs(5)
    np.testing.assert_allclose(posterior.predict(x), one_by_one(posterior, x), atol=2e-6)


@pytest.mark.parametrize("draws_at_once", [50, 7])
def test_what_comes_before_is_computed_once(draws_at_once, monkeypatch):
    """Also where the draws take several passes."""
    net = nn.Sequential(
        nn.Linear(4, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 8), nn.Dropout(0.2), nn.Linear(8, 3)
    )
    posterior = fit(net, draws=50)
    parts = [range(k, min(50, k + draws_at_once)) for k in range(0, 50, draws_at_once)]
    monkeypatch.setattr(ways.Passes, "chunks", lambda *_: ([slice(0, 40)], parts))
    seen = {"before": 0, "behind": 0}

    def watch(name, layer):
        layer.register_forward_hook(lambda _, given, __: seen.update({name: seen[name] + len(given[0])}))

    before, _, behind, *_ = posterior.passes.net  # Before, the first dropout, the linear layer after it
    watch("before", before[0])
    watch("behind", behind)
    posterior.predict(blobs(40)[0])
    assert seen == {"before": 40, "behind": 40 * 50}


def test_the_fast_product_is_the_usual_one(monkeypatch):
    """oneDNN's, with the ReLU in it, and torch's own; of rows, and of sequences, which only the latter takes."""
    torch.manual_seed(0)
    weight, bias = torch.randn(7, 5), torch.randn(7)
    for x in (torch.randn(11, 5), torch.randn(3, 4, 5)):
        for options in ((bias, True), (bias, False), (None, True)):
            wanted = nn.functional.linear(x, weight, options[0])
            wanted = wanted.relu() if options[1] else wanted
            torch.testing.assert_close(tensors.linear(x, weight, options[0], relu=options[1]), wanted)
    posterior, x = fit(mlp(4, 3), draws=9), blobs(50)[0]
    fast = posterior.predict(x)
    monkeypatch.setattr(tensors, "_ONEDNN", None)
    np.testing.assert_allclose(fast, posterior.predict(x), atol=2e-6)


def test_chunks_do_not_matter(monkeypatch):
    posterior = fit(small_net(), draws=11)
    x, _ = blobs(23)
    whole, embedded = posterior.predict(x), gradient_embeddings(posterior, x)
    for size in (1, 200, 1000):
        monkeypatch.setitem(ways.PASS_BYTES, "cpu", size)
        np.testing.assert_allclose(posterior.predict(x), whole, atol=2e-6)
        np.testing.assert_allclose(gradient_embeddings(posterior, x), embedded, atol=2e-5)
    monkeypatch.setitem(ways.PASS_BYTES, "cpu", 1)
    inputs, draws = posterior.passes.chunks(2, 11, "cpu")
    assert inputs == [slice(0, 1), slice(1, 2)]
    assert draws == [range(k, k + 1) for k in range(11)]


def test_threads_do_not_matter():
    posterior = fit(mlp(4, 3), draws=20)
    x, _ = blobs(400)
    wanted, found = posterior.predict(x), {}

    def work(size):
        found[size] = np.concatenate([posterior.predict(x[i : i + size]) for i in range(0, 400, size)])

    workers = [threading.Thread(target=work, args=(size,)) for size in (50, 80, 400)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for probs in found.values():
        np.testing.assert_allclose(probs, wanted, atol=2e-6)


class Forgetful(nn.Module):
    """Leaves what it needs later on itself, as layers of users do."""

    def __init__(self):
        super().__init__()
        self.first, self.dropout, self.last = nn.Linear(4, 64), nn.Dropout(0.5), nn.Linear(64, 3)

    def forward(self, x):
        self.kept = self.first(x)
        hidden = self.dropout(torch.relu(self.kept))
        time.sleep(1e-4)  # another thread may come by
        return self.last(hidden) + self.kept[:, :3].repeat_interleave(len(hidden) // len(x), 0)


def test_passes_side_by_side_have_layers_of_their_own(monkeypatch):
    posterior = fit(Forgetful(), draws=6)
    assert posterior.passes.shared
    x, _ = blobs(60)
    monkeypatch.setenv("ASKWELL_THREADS", "1")
    wanted = posterior.predict(x)
    monkeypatch.setenv("ASKWELL_THREADS", "4")
    monkeypatch.setitem(ways.PASS_BYTES, "cpu", 4 * 6 * 300)  # a few inputs at a time
    np.testing.assert_allclose(posterior.predict(x), wanted, atol=2e-6)


def test_torchs_threads_are_as_many_as_before(monkeypatch):
    posterior, (x, _) = fit(mlp(4, 3), draws=20), blobs(40)
    monkeypatch.setenv("ASKWELL_THREADS", "3")
    monkeypatch.setitem(ways.PASS_BYTES, "cpu", 1 << 15)
    torch.set_num_threads(2)
    callers = [threading.Thread(target=posterior.predict, args=(x,)) for _ in range(3)]
    for caller in callers:
        caller.start()
    posterior.predict(x)
    for caller in callers:
        caller.join()
    with ThreadPoolExecutor(1) as pool:
        assert [torch.get_num_threads(), pool.submit(torch.get_num_threads).result()] == [2, 2]


# ---- the distribution ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_masks_are_fair_coins(rate):
    bits = kept_features(7, (0, 0), range(200), [20, 30], rate=rate)
    error = np.sqrt(rate * (1 - rate))
    assert abs(bits.mean() - (1 - rate)) < 4 * error / np.sqrt(bits.size)
    z = (bits - (1 - rate)) / error
    for a, b in ((z[1:], z[:-1]), (z[:, 1:], z[:, :-1]), (z[:, :, 1:], z[:, :, :-1])):
        assert abs((a * b).mean()) < 4 / np.sqrt(a.size)  # neighbours know nothing of each other
    for other in (
        kept_features(8, (0, 0), range(200), [20, 30], rate=rate),
        kept_features(7, (1, 0), range(200), [20, 30], rate=rate),
    ):
        assert abs(np.mean(z * (other - (1 - rate)) / error)) < 4 / np.sqrt(z.size)
    assert not kept_features(7, (0, 0), range(9), [9], rate=1.0).any()
    assert kept_features(7, (0, 0), range(9), [9], rate=0.0).all()


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_prediction_is_distributed_as_by_ordinary_dropout(kind):
    """Mean and spread over draws of one input's probabilities, against torch's own layers in train mode."""
    x, _ = blobs(2)
    net = small_net(kind)
    posterior = fit(net, draws=4000, pretrained=True, training=ModernTraining(steps=0))
    fixed = posterior.predict(x)
    with torch.no_grad():
        repeated = torch.as_tensor(x).repeat_interleave(4000, 0)
        ordinary = net.train()(repeated).softmax(-1).unflatten(0, (2, 4000)).numpy()
    error = np.sqrt((fixed.var(1) + ordinary.var(1)) / 4000)
    assert (np.abs(fixed.mean(1) - ordinary.mean(1)) < 4.5 * error).all()
    np.testing.assert_allclose(fixed.std(1), ordinary.std(1), rtol=0.1)
    for threshold in np.linspace(0, 1, 50):
        np.testing.assert_allclose(*((p < threshold).mean(1) for p in (fixed, ordinary)), atol=0.05)


def test_one_layer_used_twice_has_two_masks():
    posterior = fit(Residual(), draws=3)
    (layer,) = (layer for layer in posterior.passes.net.modules() if isinstance(layer, FixedDropout))
    first, second = (kept_features(posterior.seed, (layer.position, call), range(3), [8], rate=0.5) for call in (0, 1))
    assert (first != second).any()


# ---- training ------------------------------------------------------------------------------------------------------


def overfitting(restore, seed=0):
    """A net that soon knows its few noisy labels by heart."""
    x, y = blobs(40, c=2, seed=3)
    noise = rng_for(seed, 0, "noise").random(40) < 0.3
    y = np.where(noise, 1 - y, y)
    training = PaperTraining(steps=800, patience=400, validate_every=20, restore=restore)
    model = DropoutModel(mlp(4, 2), training=training, draws=100)
    held = (x[20:], y[20:])
    return model.fit(x[:20], y[:20], rng=rng_for(seed, 0, "fit"), validation=held), held


def validation_loss(posterior, held):
    return -np.log(posterior.predict(held[0]).mean(1)[np.arange(len(held[1])), held[1]]).mean()


def test_restore_restores_and_the_authors_does_not():
    restored, held = overfitting(True)
    left, _ = overfitting(False)
    assert restored.history == left.history
    losses = [loss for _, loss in restored.history]
    assert losses[-1] > min(losses) + 0.2  # or the test shows nothing
    assert abs(validation_loss(restored, held) - min(losses)) < 0.05
    assert abs(validation_loss(left, held) - losses[-1]) < 0.2
    assert restored.history[-1][0] - restored.history[int(np.argmin(losses))][0] in (400, 800)


def test_restore_restores_exactly():
    """A loss that is best at step 2: the weights of then, bit by bit."""
    net, weights = nn.Linear(1, 2), []

    def predictive(x, draws, seed):
        weights.append(net.weight.detach().clone())
        return torch.full((1, 2), -abs(len(weights) - 3.0))

    data = (torch.ones(4, 1), torch.tensor([0, 1, 1, 1]))
    validation = (torch.ones(1, 1), torch.tensor([0]))
    task = TrainingTask(net, lambda x: net(x).log_softmax(-1), predictive, *data, validation)
    PaperTraining(steps=6, validate_every=1).train(task, rng=rng_for(0, 0, "train"))
    assert torch.equal(net.weight, weights[2])
    assert not torch.equal(weights[2], weights[-1])


def test_without_a_validation_set_some_labels_are_held_out():
    posterior = fit(mlp(4, 3), training=PaperTraining(steps=60, validate_every=20))
    assert [step for step, _ in posterior.history] == [0, 20, 40, 60]
    with pytest.raises(ValueError, match="too few to hold one out"):
        fit(mlp(4, 3), *blobs(3), training=PaperTraining(steps=60))


def test_modern_training_learns_and_validates():
    x, y = blobs(60, (8,), apart=2.0)
    more, wanted = blobs(300, (8,), apart=2.0)
    held = (x[40:], y[40:])
    for posterior in (
        fit(mlp(8, 3), x, y, training=ModernTraining()),
        fit(mlp(8, 3), x[:40], y[:40], training=ModernTraining(), validation=held),
    ):
        assert (posterior.predict(more).mean(1).argmax(1) == wanted).mean() > 0.8
    assert len(posterior.history) == 10
    assert abs(validation_loss(posterior, held) - min(loss for _, loss in posterior.history)) < 0.1


def test_training_in_bfloat16_is_that_in_float32_but_for_the_rounding():
    (x, y), (more, wanted) = bars(60), bars(200, seed=1)
    exact, rounded, again = (
        fit(cnn(3), x, y, training=ModernTraining(steps=40, learning_rate=2e-3, bfloat16=short), draws=10)
        for short in (False, True, True)
    )
    np.testing.assert_array_equal(rounded.predict(more), again.predict(more))
    assert all(part.dtype == torch.float32 for part in rounded.passes.net.parameters())
    rights = [(each.predict(more).mean(1).argmax(1) == wanted).mean() for each in (exact, rounded)]
    assert min(rights) > 0.8
    assert abs(rights[0] - rights[1]) < 0.1


def test_the_template_and_torchs_randomness_stay_as_they_are():
    net = mlp(4, 3)
    before, state = copy.deepcopy(net.state_dict()), torch.get_rng_state()
    posterior = fit(net)
    posterior.predict(blobs()[0])
    assert all(torch.equal(before[name], part) for name, part in net.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert net.training


def test_seeds():
    x, _ = blobs()
    a, b, c = (fit(mlp(4, 3), seed=seed).predict(x) for seed in (0, 0, 1))
    np.testing.assert_array_equal(a, b)  # though the two templates had different weights
    assert np.abs(a - c).max() > 0.01


def test_pretrained_and_frozen_weights_are_kept():
    net = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 3))
    net[0].requires_grad_(False)
    none = ModernTraining(steps=0)
    fresh, kept_all = (fit(net, training=none, pretrained=pretrained).passes.net for pretrained in (False, True))
    assert torch.equal(fresh[0][0].linear.weight, net[0].weight)
    assert not torch.equal(fresh[2].linear.weight, net[2].weight)
    assert torch.equal(kept_all[2].linear.weight, net[2].weight)


# ---- what comes in and goes out ------------------------------------------------------------------------------------


def test_the_last_layer_fits_the_classes():
    x, y = blobs()
    for module in (mlp(4, 7), lambda classes: mlp(4, classes)):
        model = DropoutModel(module, training=QUICK, draws=3)
        posterior = model.fit(x, y, rng=rng_for(0, 0, "fit"), classes=[2, 1, 0, 9])
        assert posterior.classes == (2, 1, 0, 9)
        assert posterior.predict(x).shape == (30, 3, 4)


@pytest.mark.parametrize(("output", "last"), [("probs", nn.Softmax(-1)), ("log_probs", nn.LogSoftmax(-1))])
def test_outputs_other_than_logits(output, last):
    x, _ = blobs()
    found = fit(nn.Sequential(*mlp(4, 3), last), output=output).predict(x)
    np.testing.assert_allclose(found, fit(mlp(4, 3)).predict(x), atol=1e-4)


def test_tensors_in_tensors_out():
    x, y = blobs()
    posterior = fit(mlp(4, 3), torch.as_tensor(x), y)
    found = posterior.predict(torch.as_tensor(x))
    assert isinstance(found, torch.Tensor)
    assert not found.requires_grad
    probs = posterior.predict(x)
    assert probs.dtype == np.float32
    np.testing.assert_array_equal(found.numpy(), probs)
    np.testing.assert_allclose(posterior.predict(x.astype(np.float64).tolist()), probs, atol=1e-6)
    assert posterior.predict(x[:0]).shape == (0, 100, 3)


def test_sequences_of_any_length_where_whole_channels_are_dropped():
    """A channel's mask is the same for a short and a long sequence, one after the other."""

    class Words(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.dropout, self.head = nn.Embedding(9, 8), nn.Dropout1d(0.5), nn.Linear(8, 2)

        def forward(self, words):
            return self.head(self.dropout(self.embed(words).mT).amax(2))

    x = rng_for(0, 0, "words").integers(9, size=(12, 5))
    posterior = fit(Words(), x, np.arange(12) % 2, draws=4)
    for words in (x, x[:, :2], np.concatenate([x, x], axis=1)):
        np.testing.assert_allclose(posterior.predict(words), one_by_one(posterior, words), atol=2e-6)


def test_texts_by_name_or_by_an_adapter():
    rng = rng_for(0, 0, "texts")
    ids = rng.integers(1, 20, size=(24, 6))
    ids[::2, 4:] = 0
    y = (ids[:, 0] > 9).astype(int)
    named = {"input_ids": ids, "attention_mask": (ids > 0).astype(np.float32)}
    by_name = fit(Texts(), named, y, draws=9)
    by_adapter = fit(Texts(), ids, y, draws=9, logits=ask_texts)
    probs = by_adapter.predict(ids)
    np.testing.assert_allclose(by_name.predict(named), probs, atol=2e-6)
    np.testing.assert_allclose(probs, one_by_one(by_adapter, ids, ask_texts), atol=2e-6)
    check_model(DropoutModel(Texts(), training=QUICK, logits=ask_texts), x=ids, y=y, processes=False)
    longer = np.concatenate([ids, np.zeros((24, 3), int)], axis=1)  # padding changes no draw
    np.testing.assert_allclose(by_adapter.predict(longer), probs, atol=2e-6)


def test_a_posterior_goes_to_another_process():
    x, y = blobs(12, (28, 28))
    posterior = fit(cnn(3), x, y, draws=5)
    probs = posterior.predict(x)
    sent = pickle.dumps((posterior, x))
    assert len(sent) < 2**20  # no masks, no activations
    code = "import pickle, sys; p, x = pickle.load(sys.stdin.buffer); pickle.dump(p.predict(x), sys.stdout.buffer)"
    done = subprocess.run([sys.executable, "-c", code], input=sent, capture_output=True, check=True)
    np.testing.assert_allclose(pickle.loads(done.stdout), probs, atol=2e-6)


def test_memory_grows_with_the_output_only():
    """NumPy's share by tracemalloc; torch's by the largest tensor that a layer gives."""
    posterior = fit(mlp(4, 3), draws=20)
    largest = []
    for layer in posterior.passes.net:
        layer.register_forward_hook(lambda _, __, out: largest.append(out.numel() * out.element_size()))
    x = np.zeros((20_000, 4), np.float32)
    tracemalloc.start()
    size = posterior.predict(x).nbytes
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < size + 3 * 2**20
    assert max(largest) <= ways.PASS_BYTES["cpu"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
def test_gpu():
    x, _ = blobs()
    on_gpu = fit(mlp(4, 3))
    moved = pickle.loads(pickle.dumps(on_gpu))
    object.__setattr__(moved, "device", "cpu")
    np.testing.assert_allclose(moved.predict(x), on_gpu.predict(x), atol=1e-4)


# ---- BADGE ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [small_net, Residual])
def test_gradient_embeddings_are_gradients(make):
    posterior = fit(make(), draws=6)
    x, _ = blobs(5)
    found = gradient_embeddings(posterior, x)
    for row, wanted in zip(x, found, strict=True):
        head = nn.Linear(8, 3)
        (last,) = (layer for layer in posterior.passes.net.modules() if isinstance(layer, Head))
        head.load_state_dict(last.linear.state_dict())
        probs = []
        for draw in range(6):

            def change(layer, head=head, draw=draw):
                return head if isinstance(layer, Head) else by_hand(layer, draw, posterior.seed)

            net = swapped(posterior.passes.net, change)
            probs.append(net(torch.as_tensor(row[None])).softmax(-1)[0])
        loss = -torch.stack(probs).mean(0).max().log()
        (gradient,) = torch.autograd.grad(loss, head.weight)
        np.testing.assert_allclose(wanted, gradient.flatten().numpy(), atol=1e-5)


def test_gradient_embeddings_need_a_linear_layer():
    net = nn.Sequential(
        nn.Linear(4, 3), nn.ReLU(), nn.Dropout(0.1), nn.Unflatten(1, (3, 1)), nn.Conv1d(3, 3, 1), nn.Flatten()
    )
    with pytest.raises(ValueError, match="linear layer"):
        gradient_embeddings(fit(net), blobs()[0])


# ---- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: DropoutModel(nn.Linear(4, 3)), "must have dropout layers .* has none"),
        (lambda: DropoutModel(nn.Sequential(nn.Linear(4, 3), nn.Dropout(0))), "only p = 0"),
        (lambda: DropoutModel("net"), "must be an nn.Module"),
        (lambda: DropoutModel(mlp(4, 3), output="scores"), "output must be one of"),
        (lambda: DropoutModel(mlp(4, 3), draws=0), "draws must be"),
        (lambda: fit(nn.Sequential(*mlp(4, 3), nn.Softmax(-1))), "seems to end in a softmax"),
        (lambda: fit(nn.Sequential(nn.Dropout(0.5), nn.Unflatten(1, (2, 2)), nn.Flatten())), "one number per class, 3"),
        (lambda: fit(nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Unflatten(1, (2, 4)))), "inputs, classes"),
    ],
)
def test_modules_that_will_not_do(make, words):
    with pytest.raises(ValueError, match=words):
        make()


def test_rows_must_be_apart_and_dropout_in_use():
    class Unused(nn.Module):
        def __init__(self, function):
            super().__init__()
            self.linear, self.dropout, self.function = nn.Linear(4, 3), nn.Dropout(0.5), function

        def forward(self, x):
            return self.function(self, x)

    with pytest.raises(ValueError, match="calls none of them"):
        fit(Unused(lambda net, x: net.linear(x)))
    with pytest.raises(ValueError, match="treat the rows of a batch apart"):
        fit(Unused(lambda net, x: net.linear(net.dropout(x) - x.mean(0))))
    with pytest.raises(ValueError, match="one row per input"):
        fit(Unused(lambda net, x: net.linear(net.dropout(x.T).T)))


def test_inputs_that_will_not_do():
    x, y = blobs()
    nan = x.copy()
    nan[3, 2] = np.nan
    posterior = fit(mlp(4, 3))
    for call, words in (
        (lambda: fit(mlp(4, 3), nan, y), "x must be finite"),
        (lambda: posterior.predict(nan), "x must be finite"),
        (lambda: posterior.predict(x[:, :3]), "shape \\[n, 4\\] as in the fit"),
        (lambda: posterior.predict({"x": x}), "of the kind the model was fitted with"),
        (lambda: posterior.predict([["a"] * 4]), "x must hold numbers"),
        (lambda: posterior.predict(3.0), "one row per input"),
        (lambda: posterior.predict(csr_matrix(x)), r"sparse matrix.*x.toarray\(\)"),
        (lambda: posterior.predict([[1.0], [1.0, 2.0]]), "different lengths"),
        (lambda: fit(mlp(4, 3), x[:, :2], y), "module must take x, but for two inputs of shape \\(2, 2\\)"),
        (lambda: fit(mlp(4, 3), x[:5], y), "same length"),
        (lambda: fit(mlp(4, 3), x[:0], y[:0]), "it is empty"),
        (lambda: fit(mlp(4, 3), validation=(x, y + 7)), "none of them"),
        (lambda: fit(mlp(4, 3), validation=(x[:2], y)), "same length"),
    ):
        with pytest.raises(ValueError, match=words):
            call()


def test_one_label_is_enough():
    assert fit(mlp(4, 3), *blobs(1)).predict(blobs(2)[0]).shape == (2, 100, 1)


def test_torch_is_not_needed_for_the_rest():
    code = (
        "import sys; sys.modules['torch'] = None; import askwell, askwell.models\n"
        "try: import askwell.models.dropout\n"
        "except ImportError as fault: print(fault)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'askwell[torch]'" in done.stdout


def test_a_small_net_is_tried_and_trained_on_one_thread():
    """Two inputs, or a few labels, are less work than torch's threads need to meet: they would spin meanwhile."""
    seen = set()

    class Noting(nn.Module):
        def forward(self, x):
            seen.add(torch.get_num_threads())
            return x

    torch.set_num_threads(2)
    net = nn.Sequential(Noting(), nn.Linear(2, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 2))
    x = rng_for(0, 0, "threads").normal(size=(20, 2))
    DropoutModel(net, draws=3, training=QUICK).fit(x, x[:, 0] > 0, rng=rng_for(0, 0, "fit"))
    assert seen == {1}


def test_a_mask_that_counts_only_where_it_hides_something():
    class Masked(nn.Module):  # as transformers do it: a mask without zeros is not looked at
        def __init__(self):
            super().__init__()
            self.embed, self.dropout, self.head = nn.Embedding(9, 8), nn.Dropout(0.3), nn.Linear(8, 2)

        def forward(self, input_ids, attention_mask):
            words = self.dropout(self.embed(input_ids))
            if bool((attention_mask == 0).any()):
                words = words * attention_mask[torch.arange(len(words)), :, None]
            return self.head(words.sum(1))

    ids = np.tile(np.arange(1, 7), (12, 1))
    ids[6:, 3:] = 0
    x = {"input_ids": ids, "attention_mask": (ids != 0).astype(np.int64)}
    y = np.where(ids[:, -1] == 0, "short", "long")
    check_model(DropoutModel(Masked(), draws=5), x=x, y=y, processes=False)
