#!/bin/sh
# zstandard 0.25.0 (Python): a frame that was cut short reads as an empty file, without an error.
#
# Where session logs are kept as .zst, a writer that is killed leaves half a frame. stream_reader().read() and
# decompressobj() give b"" for it. Of two frames in one file, decompress() gives the first and says nothing of the second.
#
# Seen:
#     half of a frame: stream_reader b'', decompressobj b''
#     two frames: decompress 1890 of 1897 bytes
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m venv venv
venv/bin/pip install --quiet --no-compile zstandard==0.25.0
venv/bin/python - <<'PYTHON'
import io
import zstandard

lines = b"".join(b'{"n":%d}\n' % n for n in range(200))
frame = zstandard.ZstdCompressor().compress(lines)
half, decompressor = frame[: len(frame) // 2], zstandard.ZstdDecompressor
read = decompressor().stream_reader(io.BytesIO(half)).read()
pushed = decompressor().decompressobj().decompress(half)
print(f"half of a frame: stream_reader {read}, decompressobj {pushed}")
both = frame + zstandard.ZstdCompressor().compress(b"second\n")
first, whole = len(decompressor().decompress(both)), len(lines) + 7
print(f"two frames: decompress {first} of {whole} bytes")
assert (read, pushed, first, whole) == (b"", b"", 1890, 1897)
PYTHON
