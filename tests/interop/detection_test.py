"""torchvision's operators, and detectors made of them: ONNX and `run` against torch."""

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
import vision_ops
from safetensors.torch import load_file, save_file
from torch import nn

ops = torch.ops.torchvision


def convert_and_run(slipway, module, cases, folder, dynamic=None, opset=20, onnx_too=True):
    """Outputs of each case by each runtime: {"onnx": [...], "run": [...]}."""
    program = torch.export.export(
        module.eval(), tuple(x.clone() for x in cases[0]), dynamic_shapes=dynamic, strict=False
    )
    torch.export.save(program, folder / "m.pt2")
    out = {"run": []}
    if onnx_too:
        slipway("convert", folder / "m.pt2", "-o", folder / "m.onnx", "--opset", str(opset))
        onnx.checker.check_model(str(folder / "m.onnx"), full_check=True)
        settings = onnxruntime.SessionOptions()
        settings.log_severity_level = 3
        session = onnxruntime.InferenceSession(str(folder / "m.onnx"), settings, providers=["CPUExecutionProvider"])
        names = [value.name for value in session.get_inputs()]
        out["onnx"] = [
            [
                torch.from_numpy(np.array(y))
                for y in session.run(None, {n: x.numpy() for n, x in zip(names, case, strict=True)})
            ]
            for case in cases
        ]
    for case in cases:
        try:
            program.module()(*(x.clone() for x in case))
        except RuntimeError as error:  # torchvision has exported programs assert that two boxes are left at least
            assert "u0 >= 2" in str(error)
            out["run"].append(None)
            continue
        save_file({f"input.{i}": x.contiguous() for i, x in enumerate(case)}, folder / "in.safetensors")
        slipway("run", folder / "m.pt2", "--inputs", folder / "in.safetensors", "--outputs", folder / "out.safetensors")
        results = load_file(folder / "out.safetensors")
        out["run"].append([results[f"output.{i}"] for i in range(len(results))])
    return out


def compare(slipway, module, cases, folder, tolerance=2e-5, **options):
    done = convert_and_run(slipway, module, cases, folder, **options)
    for runtime, results in done.items():
        for case, got in zip(cases, results, strict=True):
            if got is None:
                continue
            with torch.no_grad():
                want = torch.utils._pytree.tree_leaves(module(*(x.clone() for x in case)))
            assert len(got) == len(want)
            for g, w in zip(got, want, strict=True):
                assert g.dtype == w.dtype and g.shape == w.shape, runtime
                torch.testing.assert_close(
                    g, w, rtol=tolerance, atol=tolerance, equal_nan=True, msg=lambda m: f"{runtime}: {m}"
                )


def boxes_of(n, size=20.0):
    corner = torch.rand(n, 2) * size
    return torch.cat([corner, corner + torch.rand(n, 2) * size / 2], 1)


class Nms(nn.Module):
    def __init__(self, threshold):
        super().__init__()
        self.threshold = threshold

    def forward(self, boxes, scores):
        return ops.nms(boxes, scores, self.threshold)


@pytest.mark.parametrize("threshold", [0.0, 0.3, 0.5, 0.7, 1.0])
def test_nms(slipway, tmp_path, threshold):
    tied, nan, wrong, infinite = torch.rand(30), torch.rand(30), boxes_of(30), boxes_of(30)
    tied[::3] = 0.5
    nan[4] = nan[7] = torch.nan
    wrong[::4] = wrong[::4][:, [2, 1, 0, 3]]  # corners the wrong way round
    wrong[1::4] = wrong[1::4][:, [2, 3, 0, 1]]
    infinite[3, 2] = torch.inf
    exact = torch.tensor([[0.0, 0, 10, 10], [0, 0, 10, 3], [0, 0, 10, 5], [0, 0, 10, 7], [0, 0, 0, 0], [5, 5, 5, 5]])
    cases = [
        (boxes_of(30), torch.randn(30)), (boxes_of(50), tied[:30].repeat(2)[:50]), (boxes_of(30), nan),
        (wrong, torch.rand(30)),
        (infinite, torch.rand(30)), (exact, torch.arange(6.0).flip(0)), (boxes_of(2), torch.zeros(2)),
        (torch.zeros(0, 4), torch.zeros(0)), (boxes_of(5)[:1].repeat(5, 1), -torch.rand(5)),
    ]  # fmt: skip
    n = torch.export.Dim("n", min=0)
    compare(slipway, Nms(threshold), cases, tmp_path, dynamic=({0: n}, {0: n}))


def test_nms_of_f64_runs_natively(slipway, tmp_path):
    cases = [(boxes_of(30).double(), torch.rand(30).double())]
    compare(slipway, Nms(0.4), cases, tmp_path, onnx_too=False)
    done = slipway("convert", tmp_path / "m.pt2", "-o", tmp_path / "m.onnx", status=4)
    assert "torchvision.nms" in done.stderr and "f64" in done.stderr


def regions_of(n, batch=2, size=24.0):
    return torch.cat([torch.randint(0, batch, (n, 1)).float(), boxes_of(n, size)], 1)


def odd_regions():
    """Outside the image on each side, turned, empty, of one point, much larger than the image."""
    return torch.tensor([
        [0, -9.0, -7, 3, 4], [1, 20, 18, 40, 44], [0, 8, 8, 2, 3], [1, 5, 5, 5, 5], [1, 4.5, 4.5, 4.6, 9],
        [0, -50, -40, 90, 80],
        [1, 100, 100, 120, 130], [0, 2.5, 3.5, 6.5, 9.5], [1, 0, 0, 12, 10],
    ])  # fmt: skip


class Regions(nn.Module):
    def __init__(self, name, *arguments):
        super().__init__()
        self.name, self.arguments = name, arguments

    def forward(self, x, rois):
        result = getattr(ops, self.name)(x, rois, *self.arguments)
        return result[0] if self.name == "roi_pool" else result


REGIONS = {
    "align": ("roi_align", 0.5, 3, 4, 2, False), "aligned": ("roi_align", 0.5, 3, 4, 2, True),
    "align_adaptive": ("roi_align", 0.25, 2, 2, 0, False), "aligned_adaptive": ("roi_align", 1.0, 2, 3, -1, True),
    "pool": ("roi_pool", 0.5, 3, 2), "pool_scaled": ("roi_pool", 1.0, 2, 2),
    "ps_align": ("ps_roi_align", 0.5, 3, 2, 2), "ps_align_adaptive": ("ps_roi_align", 1.0, 3, 2, -1),
    "ps_pool": ("ps_roi_pool", 0.5, 3, 2),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", REGIONS)
def test_regions(slipway, tmp_path, name, dtype):
    if name.startswith("pool") and dtype == torch.float64:
        pytest.skip("ONNX pools regions in f32")
    x = torch.randn(2, 12, 10, 12).to(dtype)
    cases = [(x, regions_of(5).to(dtype)), (x, odd_regions().to(dtype)), (x, torch.zeros(0, 5, dtype=dtype))]
    n = torch.export.Dim("n", min=0)
    compare(slipway, Regions(*REGIONS[name]), cases, tmp_path, dynamic=(None, {0: n}), tolerance=1e-4)


class Deform(nn.Module):
    def __init__(self, groups, offset_groups, stride, padding, dilation, masked):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(6, 4 // groups, 3, 2)), nn.Parameter(torch.randn(6))
        self.rest, self.masked = (*stride, *padding, *dilation, groups, offset_groups, masked), masked

    def forward(self, x, offset, mask):
        return ops.deform_conv2d(x, self.weight, offset, mask, self.bias, *self.rest)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    "arguments",
    [(1, 1, (1, 1), (0, 0), (1, 1), False), (2, 2, (2, 1), (1, 2), (1, 2), True), (2, 1, (1, 2), (2, 0), (2, 1), True)],
)
def test_deformable_convolution(slipway, tmp_path, arguments, dtype):
    groups, offset_groups, stride, padding, dilation, masked = arguments
    module = Deform(*arguments).to(dtype)
    x = torch.randn(2, 4, 9, 8)
    size = [(n + 2 * p - d * (k - 1) - 1) // s + 1 for n, p, d, k, s in zip((9, 8), padding, dilation, (3, 2), stride)]
    offset = torch.randn(2, offset_groups * 12, *size) * 3
    offset[0, :, 0] = offset[0, :, 0].round()  # on pixels, on the edge of the image and outside
    mask = torch.rand(2, offset_groups * 6, *size) if masked else torch.zeros(2, 1)
    compare(slipway, module, [(x.to(dtype), offset.to(dtype), mask.to(dtype))], tmp_path, tolerance=1e-4)


@pytest.mark.skipif(not vision_ops.HAS_TORCHVISION, reason="no torchvision for this torch")
def test_references_are_torchvisions():
    x = torch.randn(2, 12, 10, 12)
    for name, *arguments in REGIONS.values():
        for rois in (regions_of(5), odd_regions()):
            torch.testing.assert_close(
                vision_ops.REFERENCES[name](x, rois, *arguments),
                getattr(ops, name)(x, rois, *arguments),
                rtol=1e-4,
                atol=1e-4,
                equal_nan=True,
            )
    boxes, scores = boxes_of(30), torch.rand(30)
    assert torch.equal(vision_ops.nms(boxes, scores, 0.4), ops.nms(boxes, scores, 0.4))
    module = Deform(2, 2, (2, 1), (1, 2), (1, 2), True)
    inputs = torch.randn(2, 4, 9, 8), torch.randn(2, 24, 5, 10) * 3, torch.rand(2, 12, 5, 10)
    want = module(*inputs)
    got = vision_ops.deform_conv2d(inputs[0], module.weight, inputs[1], inputs[2], module.bias, *module.rest)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)


class Detector(nn.Module):
    """One stage proposes boxes, another scores what is in them: anchors, decoded offsets, the best by score,
    suppression by class, regions of two feature maps, as two-stage detectors do."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 8, 3, 2, 1), nn.ReLU())
        self.scores, self.offsets = nn.Conv2d(8, 3, 1), nn.Conv2d(8, 12, 1)
        self.classes, self.refine = nn.Linear(8 * 9, 4), nn.Linear(8 * 9, 4)
        y, x, size = torch.meshgrid(
            torch.arange(8) * 4.0, torch.arange(8) * 4.0, torch.tensor([6.0, 10, 16]), indexing="ij"
        )
        self.register_buffer(
            "anchors", torch.stack([x - size / 2, y - size / 2, x + size / 2, y + size / 2], -1).reshape(-1, 4)
        )

    def decode(self, boxes, offsets):
        size = boxes[:, 2:] - boxes[:, :2]
        center = boxes[:, :2] + size / 2 + offsets[:, :2] * size
        size = size * offsets[:, 2:].clamp(max=2).exp()
        return torch.cat([center - size / 2, center + size / 2], 1).clamp(0, 32)

    def forward(self, image):
        features = self.body(image)
        scores = self.scores(features).permute(0, 2, 3, 1).reshape(-1)
        boxes = self.decode(
            self.anchors, self.offsets(features).unflatten(1, (3, 4)).permute(0, 3, 4, 1, 2).reshape(-1, 4)
        )
        scores, best = scores.topk(60)
        boxes = boxes[best]
        kept = torch.ops.torchvision.nms(boxes, scores, 0.5)
        boxes = boxes[kept]
        regions = torch.cat([boxes.new_zeros(boxes.shape[0], 1), boxes], 1)
        pooled = torch.ops.torchvision.roi_align(features, regions, 0.25, 3, 3, 2, True).flatten(1)
        scores, labels = self.classes(pooled).softmax(1).max(1)
        boxes = self.decode(boxes, self.refine(pooled) * 0.1)
        apart = boxes + (labels.to(boxes.dtype) * 100)[:, None]
        kept = torch.ops.torchvision.nms(apart, scores, 0.4)
        return boxes[kept], scores[kept], labels[kept]


def test_detector(slipway, tmp_path):
    torch.manual_seed(4)
    compare(
        slipway, Detector(), [(torch.rand(1, 3, 32, 32),), (torch.rand(1, 3, 32, 32) * 3,)], tmp_path, tolerance=1e-4
    )


@pytest.mark.skipif(not vision_ops.HAS_TORCHVISION, reason="no torchvision for this torch")
@pytest.mark.parametrize("name", ["ssdlite320_mobilenet_v3_large", "retinanet_resnet50_fpn_v2", "fcos_resnet50_fpn"])
def test_torchvisions_detectors(slipway, tmp_path, monkeypatch, name):
    from torchvision.models import detection

    # torchvision's own asks for the number of boxes, which exports do not know
    def batched_nms(boxes, scores, labels, threshold):
        far = torch.cat([boxes.flatten(), boxes.new_zeros(1)]).max() + 1
        return ops.nms(boxes + (labels.to(boxes.dtype) * far)[:, None], scores, threshold)

    monkeypatch.setattr("torchvision.ops.boxes.batched_nms", batched_nms)
    sizes = {} if name.startswith("ssd") else {"min_size": 96, "max_size": 128}
    model = getattr(detection, name)(weights=None, weights_backbone=None, num_classes=5, **sizes).eval()
    for key, weight in model.named_parameters():  # scores that differ
        if weight.dim() == 4 and "head" not in key:
            torch.nn.init.kaiming_normal_(weight)
        elif weight.dim() == 4:
            torch.nn.init.normal_(weight, std=(0.25 if name.startswith("ssd") else 1.5) / weight[0].numel() ** 0.5)
        elif "head" in key and not name.startswith("ssd"):
            torch.nn.init.normal_(weight, std=0.5)
    model.score_thresh = 0.2

    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, image):
            found = self.model([image])[0]
            return found["boxes"], found["scores"], found["labels"]

    image = torch.rand(3, 96, 128)
    with torch.no_grad():
        boxes, scores, labels = Wrapped()(image)
    assert len(boxes) > 10
    for runtime, ((got_boxes, got_scores, got_labels),) in convert_and_run(
        slipway, Wrapped(), [(image,)], tmp_path
    ).items():
        assert len(got_boxes) == len(boxes), runtime
        torch.testing.assert_close(got_scores, scores, rtol=1e-4, atol=1e-5)
        # Where scores are nearly the same, rounding decides which comes first.
        off = (got_boxes - boxes).abs().amax(1) > 1e-2
        assert off.float().mean() < 0.1, runtime
