"""Installs a build into a folder, and builds and runs a project that finds it there."""

import os
import subprocess
import sys
import tempfile

build, source, cmake, compiler = sys.argv[1:]
with tempfile.TemporaryDirectory() as folder:
    prefix, outside = os.path.join(folder, "prefix"), os.path.join(folder, "outside")

    def run(*command, **options):
        done = subprocess.run(command, capture_output=True, text=True, **options)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
        return done.stdout

    run(cmake, "--install", build, "--prefix", prefix)
    # What an environment of its own sets is left alone.
    run(cmake, "-S", source, "-B", outside, f"-DCMAKE_PREFIX_PATH={prefix}", f"-DCMAKE_CXX_COMPILER={compiler}")
    run(cmake, "--build", outside, "-j2")
    print(run(os.path.join(outside, "app"), cwd=folder))
    names = os.listdir(os.path.join(prefix, "include", "heddle"))
    if "heddle.h" not in names:
        sys.exit(f"no heddle.h among {names}")
