# The code verifier for a machine without Linux: docs/platforms.md has the command that builds and runs this image.
# UNTESTED as an image (no container could be run where it was written); its packages and folders, without a container,
# have judged programs as root.

FROM python:3.12-slim-bookworm
RUN apt-get update && apt-get install -y --no-install-recommends bubblewrap && rm -rf /var/lib/apt/lists/*
WORKDIR /rlvr
COPY constraints.txt ./
RUN pip install --no-cache-dir --disable-pip-version-check -c constraints.txt hydra-core numpy psutil pydantic
COPY common common
COPY configs configs
COPY papers papers
COPY rlvr_papers rlvr_papers
ENTRYPOINT ["python", "-m", "rlvr_papers", "verify", "verifier=code"]
