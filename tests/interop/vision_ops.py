"""torchvision's operators for tests: torchvision's own where it can be imported, else its schemas with plain loops
behind them, which detection_test.py compares with torchvision's where there is one."""

import math

import torch

try:
    import torchvision  # noqa: F401

    HAS_TORCHVISION = True
except Exception:  # not there, or not for this torch
    HAS_TORCHVISION = False

SCHEMAS = {
    "nms": "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "roi_align": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int "
    "sampling_ratio, bool aligned) -> Tensor",
    "roi_pool": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) -> "
    "(Tensor, Tensor)",
    "ps_roi_align": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width, int "
    "sampling_ratio) -> (Tensor, Tensor)",
    "ps_roi_pool": "(Tensor input, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width) -> "
    "(Tensor, Tensor)",
    "deform_conv2d": "(Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt "
    "stride_w, SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, "
    "SymInt offset_groups, bool use_mask) -> Tensor",
}


def nms(dets, scores, iou_threshold):
    area = (dets[:, 2] - dets[:, 0]) * (dets[:, 3] - dets[:, 1])
    order = scores.sort(descending=True, stable=True).indices.tolist()
    gone, kept = set(), []
    for place, i in enumerate(order):
        if i in gone:
            continue
        kept.append(i)
        for j in order[place + 1 :]:
            size = (torch.minimum(dets[i, 2:], dets[j, 2:]) - torch.maximum(dets[i, :2], dets[j, :2])).clamp(min=0)
            shared = size[0] * size[1]
            if (shared / (area[i] + area[j] - shared)).item() > iou_threshold:
                gone.add(j)
    return torch.tensor(kept, dtype=torch.int64)


def between(plane, y, x):
    height, width = plane.shape[-2:]
    if not (-1 <= y <= height and -1 <= x <= width):
        return torch.zeros(plane.shape[:-2], dtype=plane.dtype)
    y, x = min(max(y, 0.0), height - 1.0), min(max(x, 0.0), width - 1.0)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    down, across = y - top, x - left
    return (
        (1 - down) * (1 - across) * plane[..., top, left] + (1 - down) * across * plane[..., top, right]
        + down * (1 - across) * plane[..., bottom, left] + down * across * plane[..., bottom, right]
    )  # fmt: skip


def align(input, rois, scale, rows, columns, sampling, aligned, clamp):
    out = input.new_zeros(len(rois), input.shape[1], rows, columns)
    for n, roi in enumerate(rois.double().tolist()):
        left, top, right, bottom = (v * scale - (0.5 if aligned else 0) for v in roi[1:])
        width, height = right - left, bottom - top
        if not aligned:
            width, height = max(width, 1), max(height, 1)
        down, across = (sampling, sampling) if sampling > 0 else (math.ceil(height / rows), math.ceil(width / columns))
        count = max(down * across, 1) if clamp else down * across
        for i in range(rows):
            for j in range(columns):
                total = input.new_zeros(input.shape[1])
                for p in range(down):
                    for q in range(across):
                        y = top + i * height / rows + (p + 0.5) * height / rows / down
                        x = left + j * width / columns + (q + 0.5) * width / columns / across
                        total = total + between(input[int(roi[0])], y, x)
                out[n, :, i, j] = total / torch.tensor(float(count), dtype=input.dtype)
    return out


def own_bins(values):
    """[n, channels · rows · columns, rows, columns] -> each bin's own channels, and which they are."""
    n, channels, rows, columns = values.shape
    own = channels // (rows * columns)
    x = values.reshape(n, own, rows, columns, rows, columns)
    which = torch.arange(channels, dtype=torch.int32).reshape(1, own, rows, columns).expand(n, -1, -1, -1).clone()
    return torch.einsum("nkijij->nkij", x).contiguous(), which


def roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned):
    return align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, aligned, True)


def ps_roi_align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio):
    return own_bins(align(input, rois, spatial_scale, pooled_height, pooled_width, sampling_ratio, True, False))


def edges(first, last, more, bins, limit):
    """Of each bin, the first pixel and the one behind the last."""
    size = max(last - first + more, 1) / bins
    clip = lambda v: min(max(v + first, 0), limit)
    return [(clip(math.floor(i * size)), clip(math.ceil((i + 1) * size))) for i in range(bins)]


def whole(roi, scale):
    return [math.floor(abs(v * scale) + 0.5) * (1 if v >= 0 else -1) for v in roi[1:]]


def roi_pool(input, rois, spatial_scale, pooled_height, pooled_width):
    out = input.new_zeros(len(rois), input.shape[1], pooled_height, pooled_width)
    which = torch.full(out.shape, -1, dtype=torch.int32)
    for n, roi in enumerate(rois.tolist()):
        left, top, right, bottom = whole(roi, spatial_scale)
        for i, (y0, y1) in enumerate(edges(top, bottom, 1, pooled_height, input.shape[2])):
            for j, (x0, x1) in enumerate(edges(left, right, 1, pooled_width, input.shape[3])):
                if y1 > y0 and x1 > x0:
                    flat = input[int(roi[0]), :, y0:y1, x0:x1].flatten(1)
                    out[n, :, i, j], at = flat.max(1)
                    which[n, :, i, j] = ((y0 + at // (x1 - x0)) * input.shape[3] + x0 + at % (x1 - x0)).int()
    return out, which


def ps_roi_pool(input, rois, spatial_scale, pooled_height, pooled_width):
    out = input.new_zeros(len(rois), input.shape[1], pooled_height, pooled_width)
    for n, roi in enumerate(rois.tolist()):
        left, top, right, bottom = whole(roi, spatial_scale)
        for i, (y0, y1) in enumerate(edges(top, bottom, 0, pooled_height, input.shape[2] - 1)):
            for j, (x0, x1) in enumerate(edges(left, right, 0, pooled_width, input.shape[3] - 1)):
                if y1 > y0 and x1 > x0:
                    out[n, :, i, j] = input[int(roi[0]), :, y0:y1, x0:x1].mean((1, 2))
    return own_bins(out)


def deform_conv2d(
    input,
    weight,
    offset,
    mask,
    bias,
    stride_h,
    stride_w,
    pad_h,
    pad_w,
    dilation_h,
    dilation_w,
    groups,
    offset_groups,
    use_mask,
):
    rows, columns = offset.shape[2:]
    height, width = weight.shape[2:]
    batch, channels = input.shape[:2]
    padded = torch.nn.functional.pad(input, (1, 1, 1, 1))
    patches = input.new_zeros(batch, channels, height * width, rows, columns)
    for b in range(batch):
        for tap in range(height * width):
            for g in range(offset_groups):
                part = slice(g * (channels // offset_groups), (g + 1) * (channels // offset_groups))
                at = (g * height * width + tap) * 2
                for i in range(rows):
                    for j in range(columns):
                        y = i * stride_h - pad_h + tap // width * dilation_h + offset[b, at, i, j].item()
                        x = j * stride_w - pad_w + tap % width * dilation_w + offset[b, at + 1, i, j].item()
                        if -1 < y < input.shape[2] and -1 < x < input.shape[3]:
                            value = between(padded[b, part], y + 1, x + 1)
                            factor = mask[b, at // 2, i, j] if use_mask else 1
                            patches[b, part, tap, i, j] = value * factor
    patches = patches.reshape(batch, groups, -1, rows * columns)
    filters = weight.reshape(groups, weight.shape[0] // groups, -1)
    return torch.einsum("gok,bgkl->bgol", filters, patches).reshape(batch, -1, rows, columns) + bias[:, None, None]


REFERENCES = {f.__name__: f for f in (nms, roi_align, roi_pool, ps_roi_align, ps_roi_pool, deform_conv2d)}


def register():
    """Makes torch.ops.torchvision.* callable and exportable."""
    if HAS_TORCHVISION:
        return
    for name, schema in SCHEMAS.items():
        torch.library.define(f"torchvision::{name}", schema)
        torch.library.impl(f"torchvision::{name}", "CPU")(REFERENCES[name])

    @torch.library.register_fake("torchvision::nms")
    def _(dets, scores, iou_threshold):
        return dets.new_empty(torch.library.get_ctx().new_dynamic_size(), dtype=torch.int64)

    def fake_regions(name, pairs, by_position):
        @torch.library.register_fake(f"torchvision::{name}")
        def _(input, rois, spatial_scale, pooled_height, pooled_width, *rest):
            channels = input.shape[1] // (pooled_height * pooled_width) if by_position else input.shape[1]
            out = input.new_empty(rois.shape[0], channels, pooled_height, pooled_width)
            return (out, torch.empty_like(out, dtype=torch.int32)) if pairs else out

    fake_regions("roi_align", False, False)
    fake_regions("roi_pool", True, False)
    fake_regions("ps_roi_align", True, True)
    fake_regions("ps_roi_pool", True, True)

    @torch.library.register_fake("torchvision::deform_conv2d")
    def _(input, weight, offset, *rest):
        return input.new_empty(input.shape[0], weight.shape[0], *offset.shape[2:])


register()
