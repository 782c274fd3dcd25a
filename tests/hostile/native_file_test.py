"""Native libraries that are not what they say: read without being run, so what is wrong in them is an error, never a
crash; and their plans, changed at random and run."""

import pathlib
import random
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def inspected(slipway, data, path):
    path.write_bytes(data)
    binary = slipway("--version").args[0]
    done = subprocess.run([binary, "inspect", "--header", path], capture_output=True, timeout=60)
    assert done.returncode in (0, 3), (done.returncode, done.stderr)
    assert done.returncode == 0 or done.stderr
    return done.returncode


def test_damaged_libraries(slipway, tmp_path):
    slipway("convert", ROOT / "tests" / "cli" / "net.sw", "-o", tmp_path / "m.so")
    whole = (tmp_path / "m.so").read_bytes()
    payload = whole.rindex(b"SLIPWAY1")
    assert inspected(slipway, whole, tmp_path / "x.so") == 0
    for size in (10, 63, 64, 4000, payload, payload + 63, payload + 100, payload + 1000):
        assert inspected(slipway, whole[:size], tmp_path / "x.so") == 3
    assert inspected(slipway, whole.replace(b"SLIPWAY1", b"SLIPWAY2"), tmp_path / "x.so") == 3
    chance = random.Random(1)
    refused = 0
    for _ in range(60):
        bad = bytearray(whole)
        for _ in range(chance.choice((1, 3, 30))):
            # The ELF header and its segments, the payload's header, the plan.
            place = chance.choice(
                (
                    chance.randrange(0, 64 + 56 * 9),
                    payload + chance.randrange(8, 64),
                    payload + chance.randrange(64, 2000),
                )
            )
            bad[place] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        refused += inspected(slipway, bytes(bad), tmp_path / "x.so") == 3
    assert refused > 10


def test_run_reads_the_payload_before_the_code(slipway, tmp_path):
    """A size that the payload says of itself is what its library believes: looked at in the file, before it is
    loaded."""
    slipway("convert", ROOT / "tests" / "cli" / "net.sw", "-o", tmp_path / "m.so")
    whole = (tmp_path / "m.so").read_bytes()
    payload = whole.rindex(b"SLIPWAY1")
    bad = bytearray(whole)
    # the size, where the plan lies
    bad[payload + 8 : payload + 24] = b"\xff" * 7 + b"\x7f" + (1 << 40).to_bytes(8, "little")
    (tmp_path / "x.so").write_bytes(bad)
    (tmp_path / "in.safetensors").write_bytes((2).to_bytes(8, "little") + b"{}")
    done = slipway(
        "run",
        tmp_path / "x.so",
        "--inputs",
        tmp_path / "in.safetensors",
        "--outputs",
        tmp_path / "o.safetensors",
        status=3,
    )
    assert "the library is damaged" in done.stderr


def test_changed_plans(slipway, tmp_path):
    """Seeds of their own, so that another hundred thousand are run by: fuzz_plan SEED 0 100000 MODEL.so..."""
    fuzz = pathlib.Path(slipway("--version").args[0]).parent / "fuzz_plan"
    models = []
    for program in [*sorted((ROOT / "tests" / "arm").glob("*.sw")), ROOT / "tests" / "cli" / "net.sw"]:
        models.append(tmp_path / f"{program.stem}.so")
        slipway("convert", program, "-o", models[-1], "--quiet")
    assert len(models) > 10
    done = subprocess.run(
        [fuzz, "1", "0", "5000", *models], capture_output=True, text=True, errors="replace", timeout=600
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert "0 of 5000 went wrong" in done.stdout
    # Some plans are refused, some fail as they run, some run.
    said = done.stdout
    assert "a step is malformed" in said and "run: " in said and "  runs" in said
