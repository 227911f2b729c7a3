/**
 * Where the image of a file system claim is in its launcher: agent and launcher know a claim, which the agent turns into a host
 * disk, by this path from a directory of the machine that a VMI names.
 */
export function claimImagePath(volumeName: string): string {
  return `/var/run/kubevirt-private/vmi-disks/${volumeName}/disk.img`;
}
