type Architecture = 'amd64' | 'arm64' | 's390x';

/** Architectures that KubeVirt knows in Kubernetes' spelling, by that of Node.js. */
export const architectures: Readonly<Record<string, Architecture>> = { x64: 'amd64', arm64: 'arm64', s390x: 's390x' };

/** This machine's in Kubernetes' spelling; that of Node.js where KubeVirt does not know it. */
export function machineArchitecture(): string {
  return architectures[process.arch] ?? process.arch;
}
