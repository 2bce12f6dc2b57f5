"""The system calls that a sandboxed program is refused, as a seccomp filter."""

import struct

from common.errors import UserError

# System calls for memory, namespaces or kernel machinery that rlimits and namespaces do not limit.
# These are the x86_64 and aarch64 numbers of unshare, setns, mount, umount2, pivot_root, chroot,
# ptrace, process_vm_readv, process_vm_writev, keyctl, add_key, request_key, bpf, perf_event_open,
# userfaultfd, io_uring_setup, memfd_create, memfd_secret, shmget, msgget, semget, mq_open, fsopen,
# open_tree, move_mount, fsmount, socket.
REFUSED = {
    "x86_64": (
        *(272, 308, 165, 166, 155, 161, 101, 310, 311, 250, 248, 249, 321, 298, 323, 425, 319, 447),
        *(29, 68, 64, 240, 430, 428, 429, 432, 41),
    ),
    "aarch64": (
        *(97, 268, 40, 39, 41, 51, 117, 270, 271, 219, 217, 218, 280, 241, 282, 425, 279, 447),
        *(194, 186, 190, 180, 430, 428, 429, 432, 198),
    ),
}
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
CLONE = {"x86_64": 56, "aarch64": 220}
CLONE3 = 435


def program(machine: str) -> bytes:
    """Return a seccomp program. REFUSED, new namespaces by clone and the x32 calls get EPERM;
    clone3 gets ENOSYS, so that libc falls back to clone; a call of another architecture kills the
    process."""
    if machine not in REFUSED:
        raise UserError(
            f"machine {machine}: the sandbox knows only the system calls of {[*REFUSED]}"
        )
    load, equal, above, bits, ret = 0x20, 0x15, 0x35, 0x45, 0x06
    allow, kill, eperm, enosys = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
    steps = [(load, 0, 0, 4), (equal, 1, 0, AUDIT[machine]), (ret, 0, 0, kill), (load, 0, 0, 0)]
    steps += [(above, 0, 1, 0x40000000), (ret, 0, 0, eperm)]
    for number in REFUSED[machine]:
        steps += [(equal, 0, 1, number), (ret, 0, 0, eperm)]
    steps += [(equal, 0, 1, CLONE3), (ret, 0, 0, enosys)]
    steps += [(equal, 0, 3, CLONE[machine]), (load, 0, 0, 16)]
    steps += [(bits, 0, 1, 0x7E020000), (ret, 0, 0, eperm), (ret, 0, 0, allow)]
    return b"".join(struct.pack("HBBI", *step) for step in steps)
