# The code verifier for a machine without Linux: docs/platforms.md has the command that builds and runs this image.
# The image has not been built yet. Its packages and folders have judged programs as root, without a container.

FROM python:3.12-slim-bookworm
RUN apt-get update && apt-get install -y --no-install-recommends bubblewrap
WORKDIR /rlvr
COPY constraints.txt ./
RUN pip install --no-cache-dir --disable-pip-version-check -c constraints.txt hydra-core numpy psutil pydantic
COPY common common
COPY configs configs
COPY papers papers
COPY rlvr_papers rlvr_papers
ENTRYPOINT ["python", "-m", "rlvr_papers", "verify", "verifier=code"]
