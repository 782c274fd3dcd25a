"""Whether onnxruntime's products of 8-bit integers can be compared with: without VNNI, x86-64 multiplies u8 by s8 with
vpmaddubsw, which saturates the sum of two products at 16 bits, and onnxruntime accepts that."""

import pathlib
import platform

FLAGS = set(pathlib.Path("/proc/cpuinfo").read_text().split())
SATURATES = platform.machine() == "x86_64" and not FLAGS & {"avx512_vnni", "avx_vnni"}
WHY = "onnxruntime's sums of 8-bit products saturate on this processor"


def widen(options):
    """Products of two u8, which are exact everywhere; onnxruntime (1.31) fails so where weights are shared
    or dequantized alone."""
    options.add_session_config_entry("session.x64quantprecision", "1")
