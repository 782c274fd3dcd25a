# -h is one screen, --help everything, wrapped to the terminal's width.
source "$ROOT/tests/cli/lib.bash"
unset COLUMNS
: > stderr
columns() { "$PYTHON" -c 'import sys; print(max(len(l.rstrip("\n")) for l in sys.stdin))'; }
commands=$(slipway -h | sed -n '/^Commands:/,$p' | sed -nE 's/^  ([a-z]+) .*/\1/p')
[ "$(wc -w <<< "$commands")" -ge 14 ] || fails "few commands: $commands"
for command in '' $commands; do
  for width in 80 100 200; do
    COLUMNS=$width slipway $command -h > brief
    [ "$(wc -l < brief)" -le 40 ] || fails "$command -h at $width: $(wc -l < brief) lines"
    [ "$(columns < brief)" -le $((width < 100 ? width : 100)) ] || fails "$command -h at $width: $(columns < brief)"
  done
  for width in 20:80 80:80 110:110 500:120; do
    COLUMNS=${width%:*} slipway $command --help | grep -vE '^(docs|schemas)/ ' > full  # paths are not wrapped
    [ "$(columns < full)" -le ${width#*:} ] || fails "$command --help at $width: $(columns < full) columns"
  done
  slipway $command --help | grep -vE '^(docs|schemas)/ ' > full
  [ "$(columns < full)" -le 100 ] || fails "$command --help: $(columns < full) columns"
  # Both have the same flags.
  flags() { grep -oE '(^|[ ,])--[a-z][a-z0-9-]*' | tr -d ' ,' | sort -u; }
  [ -z "$command" ] || grep -E '^ +(-.,)? *--|^      ( *--|also )' brief | flags > short
  [ -z "$command" ] || sed -nE 's/^  (   |-.,) (--[a-z0-9-]+).*/\2/p' full | sort -u > long
  [ -z "$command" ] || [ -z "$(comm -13 short long)" ] || fails "$command -h lacks $(comm -13 short long)"
done

# The groups of convert, each once and in this order.
slipway convert -h | grep -E '^[A-Z].*:$' > groups
printf '%s:\n' Output Weights Shapes ONNX 'Native library and PT2' Checkpoints Quantization Reporting | diff - groups

# A terminal's own width.
"$PYTHON" - "$SLIPWAY" <<'PY'
import fcntl, os, pty, struct, sys, termios
for asked, least, most in (90, 85, 90), (300, 110, 120):
    pid, fd = pty.fork()
    if pid == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 50, asked, 0, 0))
        os.execv(sys.argv[1], ["slipway", "convert", "--help"])
    text = b""
    try:
        while part := os.read(fd, 65536):
            text += part
    except OSError:
        pass
    os.waitpid(pid, 0)
    widest = max(len(line) for line in text.decode().splitlines())
    assert least <= widest <= most, (asked, widest)
PY
