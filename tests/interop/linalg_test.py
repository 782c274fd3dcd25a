"""Linear algebra: exported by torch, converted, against torch eager.

Each case is a function of one stack of matrices. It is exported twice: over stacks of several kinds at once (known
sizes), and over one stack whose sizes are dynamic, which then also runs on another one.
"""

import os

# The signs of eigenvectors are those of MKL's steps for any processor. On Intel's with AVX2 it takes others, and torch
# itself then gives other signs where rounding decides. Read at the first call of MKL.
os.environ["MKL_CBWR"] = "COMPATIBLE"

import numpy as np
import onnxruntime
import pytest
import safetensors.numpy
import safetensors.torch
import torch

linalg, ops = torch.linalg, torch.ops.aten


def rand(*shape, dtype=torch.float32):
    generator = torch.Generator().manual_seed(sum(shape) + 7 * len(shape))
    return torch.randn(shape, generator=generator, dtype=dtype)


def hilbert(n):  # ill-conditioned: 1e7 for n = 6
    i = torch.arange(n, dtype=torch.float64)
    return 1 / (i[:, None] + i + 1)


def singular(n, rank):
    return rand(n, rank) @ rand(rank, n + 3)[:, 3:]


def psd(x):
    return x @ x.mT + 0.1 * torch.eye(x.shape[-1], dtype=x.dtype)


def sym(x):
    return x + x.mT


SQUARE = [rand(2, 3, 4, 4), rand(0, 3, 3), rand(0, 0), rand(1, 1), rand(17, 17), hilbert(6)]
TAME = SQUARE[:5]  # triangles of the ill-conditioned one are worse still
BLOCKS = [rand(2, 3, 4, 4), rand(0, 0), rand(2, 2), rand(17, 17)]
OBLONG = [rand(2, 7, 3), rand(3, 0), rand(9, 17), rand(1, 5), hilbert(6)[:, :4]]
TALL = [rand(2, 7, 3), rand(3, 0), rand(17, 9), rand(5, 1)]
ZERO, EXACT = torch.zeros(3, 3), torch.tensor([[1.0, 2], [2, 4]])  # singular
DEFICIENT = singular(5, 3)  # singular but for rounding
ANY = SQUARE + OBLONG
NONEMPTY = [x for x in ANY if x.numel()]
SQUARE_SIZES = (2, 4, 4), (3, 7, 7)
ANY_SIZES = (2, 5, 3), (3, 4, 6)


def columns(x, n=2):
    """Right sides for x: n columns."""
    return x.new_ones(*x.shape[:-1], n).cumsum(-2) * torch.arange(1, n + 1, dtype=x.dtype)


def indefinite_solve(x):
    factors = linalg.ldl_factor(sym(x))
    return linalg.ldl_solve(*factors, columns(x, 3))


def from_svd(x, full=False):
    u, s, v = linalg.svd(x, full_matrices=full)
    k = s.shape[-1]
    return u[..., :k] * s.unsqueeze(-2) @ v[..., :k, :], u.mT @ u, v @ v.mT, s


def from_old_svd(x):
    u, s, v = torch.svd(x)
    return u * s.unsqueeze(-2) @ v.mT, u.mT @ u


def from_eigh(x, triangle):
    values, vectors = linalg.eigh(x, triangle)
    return vectors * values.sin().unsqueeze(-2) @ vectors.mT, vectors.mT @ vectors, values


def tensor_inverse(x):
    n = x.shape[-1]
    return linalg.tensorinv(x.reshape(n, 1, n), ind=2)


def tensor_solve(x):
    n = x.shape[-1]
    return linalg.tensorsolve(x.reshape(1, n, n), columns(x, 1).reshape(1, n), dims=None)


def triangular(x):
    b = columns(x)
    return (
        linalg.solve_triangular(x, b, upper=True),
        linalg.solve_triangular(x, b, upper=False, unitriangular=True),
        linalg.solve_triangular(x, b.mT, upper=True, left=False),
        torch.triangular_solve(b, x, upper=False, transpose=True),
    )


def lu_solve(x):
    factors, b = linalg.lu_factor(x), columns(x)
    return (
        torch.lu_solve(b, *factors),
        linalg.lu_solve(*factors, b, adjoint=True),
        linalg.lu_solve(*factors, b.mT, left=False),
        linalg.lu_solve(*factors, b.mT, left=False, adjoint=True),
    )


def solve(x):
    return (
        linalg.solve(x, columns(x)),
        linalg.solve(x, columns(x, 1)[..., 0]),
        linalg.solve_ex(x, columns(x).mT, left=False),
    )


def cholesky_solve(x):
    b = columns(x)
    return [
        f(*a, upper=u) for u in (False, True) for f, *a in ((torch.cholesky_solve, b, x), (torch.cholesky_inverse, x))
    ]


def tolerances(x):
    tensor = x.new_tensor
    return (
        linalg.matrix_rank(x, atol=0.1, rtol=0.3), linalg.matrix_rank(x, 1.0),
        linalg.matrix_rank(x, atol=tensor(0.4), rtol=tensor(0.2)),
        linalg.pinv(x, rcond=0.3), linalg.pinv(x, atol=0.5), linalg.pinv(x, rtol=tensor(0.2)), torch.pinverse(x, 0.1),
    )  # fmt: skip


def ormqr(x, tau):
    b = columns(x)
    return [
        torch.ormqr(x, tau, b if left else b.mT, left=left, transpose=t)
        for left in (True, False)
        for t in (False, True)
    ]


# name: function, stacks of known sizes, and two sizes of the dynamic stack where torch can export that.
CASES = {
    "triangular": (triangular, TAME, SQUARE_SIZES),
    "lu": (linalg.lu, ANY + [ZERO], ANY_SIZES),
    "lu_factor": (linalg.lu_factor_ex, OBLONG + [ZERO, EXACT], ANY_SIZES),
    "lu_with_info": (lambda x: ops._lu_with_info(x, True, False), OBLONG, None),
    "lu_unpack": (lambda x: torch.lu_unpack(*linalg.lu_factor(x)), OBLONG, ANY_SIZES),
    "lu_unpack_pivots": (lambda x: torch.lu_unpack(*linalg.lu_factor(x), unpack_data=False)[0], TALL, None),
    "lu_solve": (lu_solve, SQUARE, SQUARE_SIZES),
    "solve": (solve, SQUARE, SQUARE_SIZES),
    "solve_shared": (lambda x: linalg.solve(x, columns(x.new_ones(x.shape[-2:]))), SQUARE, None),
    "solve_singular": (lambda x: linalg.solve_ex(x, columns(x))[1], [ZERO, EXACT, rand(3, 3)], None),
    "inv": (lambda x: linalg.inv_ex(x) + (torch.inverse(x),), SQUARE, SQUARE_SIZES),
    "matrix_power": (lambda x: linalg.matrix_power(x, -3), TAME, SQUARE_SIZES),
    "tensorinv": (tensor_inverse, [rand(4, 4), rand(1, 1)], None),
    "tensorsolve": (tensor_solve, [rand(4, 4), rand(1, 1)], None),
    "det": (lambda x: (linalg.det(x), *linalg.slogdet(x), torch.logdet(x)), SQUARE + [ZERO], SQUARE_SIZES),
    "cholesky": (lambda x: (linalg.cholesky(psd(x)), linalg.cholesky(psd(x).triu(), upper=True)), SQUARE, SQUARE_SIZES),
    "cholesky_old": (lambda x: torch.cholesky(psd(x)), SQUARE[:1], None),
    "cholesky_info": (lambda x: linalg.cholesky_ex(sym(x))[1], TAME + [ZERO], SQUARE_SIZES),
    "cholesky_solve": (cholesky_solve, TAME, SQUARE_SIZES),
    "ldl": (lambda x: (*linalg.ldl_factor_ex(sym(x)), indefinite_solve(x)), SQUARE, SQUARE_SIZES),
    "ldl_blocks": (lambda x: (*linalg.ldl_factor(sym(x.triu(1))), indefinite_solve(x.triu(1))), BLOCKS, SQUARE_SIZES),
    "ldl_singular": (lambda x: linalg.ldl_factor_ex(x), [ZERO, rand(3, 3).tril(-2)], None),
    "qr": (linalg.qr, ANY + [ZERO], ANY_SIZES),
    "qr_modes": (lambda x: linalg.qr(x, mode="complete") + (linalg.qr(x, mode="r")[1],), ANY, ANY_SIZES),
    "qr_old": (lambda x: (*torch.qr(x), *torch.qr(x, some=False)), TALL, None),
    "qr_scaled": (lambda x: (*linalg.qr(x * 1e25), *linalg.qr(x * 1e-25)), TALL[:1], None),
    "geqrf": (torch.geqrf, OBLONG, None),
    "householder_product": (lambda x: linalg.householder_product(*torch.geqrf(x)), SQUARE + TALL, None),
    "householder_product_fewer": (lambda x: linalg.householder_product(x, x[..., 0, :2]), TALL[:1],
    ((2, 5, 3), (3, 6, 4))),
    "ormqr": (lambda x: ormqr(*torch.geqrf(x)), SQUARE[1:] + TALL, None),
    "ormqr_given": (lambda x: ormqr(x, x[..., 0, :]), TALL[:1], ((2, 5, 3), (3, 6, 4))),
    "svdvals": (linalg.svdvals, ANY + [DEFICIENT, ZERO], ANY_SIZES),
    "svd": (from_svd, ANY + [DEFICIENT, ZERO], ANY_SIZES),
    "svd_full": (lambda x: from_svd(x, True), OBLONG + [DEFICIENT], ANY_SIZES),
    "svd_old": (from_old_svd, OBLONG, None),
    "svd_old_values": (lambda x: torch.svd(x, compute_uv=False), OBLONG, None),
    "eigvalsh": (lambda x: (linalg.eigvalsh(x), linalg.eigvalsh(x, "U")), SQUARE, SQUARE_SIZES),
    "eigh": (lambda x: (*from_eigh(x, "L"), *from_eigh(x, "U")), SQUARE, SQUARE_SIZES),
    "eigh_repeated": (
        lambda x: from_eigh(torch.block_diag(x @ x.mT, x.mT @ x), "L"),
        [torch.zeros(4, 2), torch.tensor([[0.0], [1.0]]), rand(5, 5)], None),
    "eigh_opposite": (lambda x: from_eigh(torch.block_diag(x, -x), "L"), [torch.eye(2), sym(rand(4, 4))], None),
    "matrix_rank": (linalg.matrix_rank, ANY + [DEFICIENT, ZERO], ANY_SIZES),
    "pinv": (linalg.pinv, ANY + [DEFICIENT, ZERO], ANY_SIZES),
    "tolerances": (tolerances, OBLONG[:3], ANY_SIZES),
    "hermitian": (lambda x: (linalg.matrix_rank(sym(x), hermitian=True), linalg.pinv(sym(x), hermitian=True)), SQUARE,
    SQUARE_SIZES),
    "cond": (lambda x: (linalg.cond(x), linalg.cond(x, -2)), NONEMPTY, ANY_SIZES),
    "cond_by_inverse": (
        lambda x: [linalg.cond(x, p) for p in ("fro", "nuc", 1, -1, torch.inf, -torch.inf)],
        [rand(2, 3, 3), ZERO, hilbert(5)], None),
    "matrix_norm": (lambda x: [linalg.matrix_norm(x, p) for p in ("nuc", 2, -2)], NONEMPTY, None),
    "matrix_exp": (
        linalg.matrix_exp, [*SQUARE, 20 * rand(3, 3), ZERO, torch.stack([1e-4 * rand(3, 3), 9 * rand(3, 3)])],
        SQUARE_SIZES),
}  # fmt: skip


class Each(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return [y for x in args for y in torch.utils._pytree.tree_leaves(self.function(x))]


def check(session, module, given):
    names = [value.name for value in session.get_inputs()]
    actual = session.run(None, dict(zip(names, [x.numpy() for x in given])))
    expected = module(*given)
    assert len(actual) == len(expected)
    for k, (got, want) in enumerate(zip(actual, expected)):
        want = want.numpy()
        assert got.shape == want.shape and got.dtype == want.dtype, k
        if want.dtype.kind != "f":
            np.testing.assert_array_equal(got, want, err_msg=str(k))
            continue
        tolerance = 1e-8 if want.dtype == np.float64 else 1e-4
        size = np.abs(want[np.isfinite(want)]).max(initial=0)
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance * size, err_msg=str(k))


def exported(module, inputs, shapes=None):
    return torch.export.export(module, tuple(inputs), dynamic_shapes=shapes, strict=False)


def converted(program, slipway, folder):
    torch.export.save(program, folder / "in.pt2")
    slipway("convert", folder / "in.pt2", "-o", folder / "out.onnx")
    return onnxruntime.InferenceSession(str(folder / "out.onnx"), providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("name", CASES)
def test_known_sizes(name, slipway, tmp_path):
    function, inputs, _ = CASES[name]
    module = Each(function)
    check(converted(exported(module, inputs), slipway, tmp_path), module, inputs)


@pytest.mark.parametrize("sizes", sorted({sizes for *_, sizes in CASES.values() if sizes}))
def test_dynamic_sizes(sizes, slipway, tmp_path):
    functions = [function for function, _, wanted in CASES.values() if wanted == sizes]
    module = Each(lambda x: [f(x) for f in functions])  # in one program: exporting it is what takes time
    dynamic = {"args": (dict.fromkeys(range(len(sizes[0])), torch.export.Dim.DYNAMIC),)}
    session = converted(exported(module, [rand(*sizes[0])], dynamic), slipway, tmp_path)
    for given in sizes:
        check(session, module, [rand(*given)])


def test_decomposed_by_torch(slipway, tmp_path):
    """Checks of errors, which torch's own decompositions leave as effects, are dropped."""
    module = Each(
        lambda x: (linalg.inv(x), linalg.cholesky(psd(x)), linalg.det(x), linalg.pinv(x), linalg.eigvalsh(sym(x)))
    )
    program = exported(module, [rand(3, 3)]).run_decompositions()
    check(converted(program, slipway, tmp_path), module, [rand(3, 3)])


def symmetric_of_all_kinds(n):
    """[batch, n, n] f64: what decides over signs by rounding alone is among them, such as equal elements of the
    diagonal."""
    out = []
    # of rank 1: rotations of numbers whose squares are 0
    vanishing = np.float32([-0.08982309699058533, -0.21267884969711304, -2.254397392272949])[:n]
    for _ in range(60):
        normal, points = np.random.randn(n, n), np.random.randn(n, 3)
        adjacent = np.triu(np.random.randint(0, 2, (n, n)), 1)
        adjacent = adjacent + adjacent.T
        kinds = [
            normal,
            normal @ normal.T,
            np.diag(np.diag(normal)),
            np.diag(np.random.randint(0, 3, n)),
            np.eye(n),
            normal * 0,
        ]
        kinds += [np.exp(-((points[:, None] - points[None]) ** 2).sum(-1)), np.diag(adjacent.sum(0)) - adjacent]
        kinds += [np.random.randint(-2, 3, (n, n)), normal * 10.0 ** np.random.randint(-25, 25), np.ones((n, n))]
        kinds += [np.corrcoef(np.random.randn(n, 6)).reshape(n, n), np.outer(vanishing, vanishing)]
        out += [k + k.T if kind == 8 else k for kind, k in enumerate(kinds)]
    return torch.from_numpy(np.stack([x.astype(np.float64) for x in out]))


@pytest.mark.parametrize("triangle", ["L", "U"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_eigenvectors_have_torchs_signs(n, dtype, triangle, slipway, tmp_path):
    module = Each(lambda x: tuple(linalg.eigh(x, triangle)))
    x = symmetric_of_all_kinds(n).to(dtype)
    program = exported(module, [x], {"args": ({0: torch.export.Dim.DYNAMIC},)})
    session = converted(program, slipway, tmp_path)
    values, vectors = (t.numpy() for t in linalg.eigh(x, triangle))
    slipway("convert", tmp_path / "in.pt2", "-o", tmp_path / "out.so")
    safetensors.torch.save_file({"input.0": x}, tmp_path / "in.safetensors")
    slipway(
        "run", tmp_path / "out.so", "--inputs", tmp_path / "in.safetensors", "--outputs", tmp_path / "out.safetensors"
    )
    native = safetensors.numpy.load_file(tmp_path / "out.safetensors")
    for got in (session.run(None, {session.get_inputs()[0].name: x.numpy()}), [native["output.0"], native["output.1"]]):
        eps, size = np.finfo(values.dtype).eps, np.abs(values).max(-1, keepdims=True)
        assert (np.abs(got[0] - values) <= 8 * eps * size).all()
        # Vectors, where the value is not as good as equal to another.
        apart = np.abs(values[:, :, None] - values[:, None]) + np.diag([np.inf] * n)
        apart = (apart.min(-1, initial=np.inf) > 1e3 * eps * size)[:, None, :]
        assert apart.mean() > 0.5 and (np.abs(got[1] - vectors) * apart <= 1e-2).all()
        again = (got[1] * got[0][:, None, :]) @ got[1].swapaxes(-1, -2)
        given = x if triangle == "L" else x.mT
        assert (np.abs(again - (given.tril() + given.tril(-1).mT).numpy()) <= 32 * eps * size[..., None]).all()


def test_eigenvectors_of_infinities_are_nan(slipway, tmp_path):
    """torch raises; a program cannot, and must end."""
    x = torch.stack([torch.full((3, 3), v) for v in (float("inf"), float("nan"), 1.0)])
    program = exported(Each(lambda x: tuple(linalg.eigh(x))), [torch.ones(3, 3, 3)])
    session = converted(program, slipway, tmp_path)
    values, vectors = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    assert (
        np.isnan(values[:2]).all()
        and np.isnan(vectors[:2]).all()
        and np.isfinite(values[2]).all()
        and np.isfinite(vectors[2]).all()
    )


def fixed_eigh(x):
    return tuple(linalg.eigh(x))


@pytest.mark.parametrize(
    "function, n, dynamic",
    [(fixed_eigh, 4, False), (fixed_eigh, 3, True), (linalg.svd, 3, False), (torch.svd, 3, False)],
)
def test_refuses_vectors_of_open_sign(function, n, dynamic, slipway, tmp_path):
    shapes = {"args": ({0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC},)} if dynamic else None
    with pytest.raises(AssertionError, match="signs"):
        converted(exported(Each(function), [rand(n, n)], shapes), slipway, tmp_path)


# Operators of torch 2.14, which may not be installed here.
OF_2_14 = """slipway.ir 1
form functional
graph main(%x: f32[2,5,3], %y: f32[2,4,4]) {
  %u: f32[2,5,3], %h: f32[2,3,3] = aten.linalg_polar.default(A=%x)
  %r: f32[2,4,4] = aten.linalg_matrix_sqrth.default(self=%y)
  return %u, %h, %r
}
"""


def test_operators_of_torch_2_14(slipway, tmp_path):
    (tmp_path / "m.sw").write_text(OF_2_14)
    x, y = rand(2, 5, 3), rand(2, 4, 4)
    y = y @ y.mT
    y[1] = y[1, :, :2] @ y[1, :, :2].mT  # of rank 2
    left, s, right = linalg.svd(x, full_matrices=False)
    values, vectors = linalg.eigh(y)
    wanted = [
        left @ right,
        right.mT @ (s[..., None] * right),
        (vectors * values.clamp_min(0).sqrt()[..., None, :]) @ vectors.mT,
    ]
    slipway("convert", tmp_path / "m.sw", "-o", tmp_path / "m.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"), providers=["CPUExecutionProvider"])
    results = session.run(None, {v.name: t.numpy() for v, t in zip(session.get_inputs(), (x, y), strict=True)})
    slipway("convert", tmp_path / "m.sw", "-o", tmp_path / "m.so")
    safetensors.torch.save_file({"input.0": x, "input.1": y}, tmp_path / "in")
    slipway("run", tmp_path / "m.so", "--inputs", tmp_path / "in", "--outputs", tmp_path / "out")
    native = safetensors.torch.load_file(tmp_path / "out")
    for i, want in enumerate(wanted):
        for got in (torch.from_numpy(results[i]), native[f"output.{i}"]):
            torch.testing.assert_close(got, want, rtol=1e-4, atol=2e-3 if i == 2 else 1e-5)
    (tmp_path / "wide.sw").write_text(OF_2_14.replace("f32[2,5,3]", "f32[2,2,3]"))
    assert (
        "fewer rows than columns"
        in slipway("convert", tmp_path / "wide.sw", "-o", tmp_path / "w.onnx", status=3).stderr
    )
