#!/usr/bin/env bash
# Everything that needs a GPU: the CUDA tests on this machine's, NVIDIA's memory checker on some of them, and the figures of
# docs/results/gpu.md. Called by `make gpu`, which sets up .venv/. With PYTHON=/an/environment/bin/python, where Hyperchunk, pytest,
# pytest-timeout, Hypothesis, h5py and netCDF4 are installed, it runs there, and nothing is built or fetched.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-.venv/bin/python}
command=$("$python" -c 'import pathlib, sys; print(pathlib.Path(sys.executable).with_name("hyperchunk"))')
export HYPERCHUNK_TEST_GPU=1

"$command" doctor | grep -E '^(cuda|gpu|nvrtc|nvcomp|cufile)' || true
if ! "$python" -c 'import hyperchunk, sys; sys.exit(not hyperchunk.cuda.devices())' 2>/dev/null; then
    echo "make gpu: there is no GPU that this process may use; the lines above say why" >&2
    exit 2
fi

failed=0
echo "gpu: tests"
"$python" -m pytest -q -p no:cacheprovider python/tests/test_cuda*.py || failed=1

sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)
if [[ -n $sanitizer ]]; then
    # The sandbox of live datasets does not allow the checker, so it covers our own kernels and NVIDIA's.
    for tool in memcheck racecheck initcheck synccheck; do
        echo "gpu: compute-sanitizer, $tool"
        "$sanitizer" --tool "$tool" --error-exitcode 9 "$python" -m pytest -q -p no:cacheprovider --timeout 0 \
            python/tests/test_cuda.py -k 'layouts_and_filters or types or byte_orders' || failed=1
    done
else
    echo "gpu: no compute-sanitizer (it comes with CUDA's toolkit): left out" >&2
fi

echo "gpu: figures"
"$python" bench/gpu.py "$@" || failed=1
exit $failed
