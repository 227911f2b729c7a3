const names: Readonly<Record<string, string>> = { x64: 'amd64' };

/** This machine's architecture in Kubernetes spelling, from that of Node.js. */
export function machineArchitecture(nodeArch: string = process.arch): string {
  return names[nodeArch] ?? nodeArch;
}
