"""The generated data files are what their scripts give with the pinned packages."""

import pathlib
import subprocess
import sys

import pytest

SCRIPTS = pathlib.Path(__file__).resolve().parent.parent.parent / "scripts"


# Of transformers' names all rules, and the classes that are different kinds of models.
NAMES = ("ViTModel", "MixtralForCausalLM", "LlavaForConditionalGeneration", "T5Model", "CLIPModel", "BertForMaskedLM")


@pytest.mark.parametrize(
    "script",
    [
        ("gen_op_schemas.py", "--check"),
        ("gen_ort_kernels.py", "--check"),
        ("gen_special_tables.py", "--check"),
        ("gen_transformers_names.py", "--check", *NAMES),
    ],
    ids=lambda script: script[0],
)
def test_is_current(script):
    done = subprocess.run([sys.executable, SCRIPTS / script[0], *script[1:]], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
