/** A bind mount into the sandbox. Paths are absolute; `target` is as the pod sees it. */
export interface SandboxMount {
  readonly source: string;
  readonly target: string;
  readonly readOnly: boolean;
  /** What the source is: decides how the mount point is made. */
  readonly type: 'directory' | 'file';
  /** What the machine mounts below the source later comes into the pod, too. */
  readonly followsHost?: true;
  /** `<device>-<inode>`, decimal, of what was looked at: nothing else is mounted. Where others could exchange it, or change a link. */
  readonly identity?: string;
}

/** A block device of the machine, which is QEMU's user's in the pod. Paths are absolute; `target` is as the pod sees it. */
export interface SandboxDevice {
  readonly source: string;
  readonly target: string;
}

/** A link of the pod's own into a bridge of the machine, in a network namespace that goes with the pod. */
export interface SandboxNetwork {
  readonly bridge: string;
  /** Name of the link's end on the machine. */
  readonly hostLink: string;
  readonly mac: string;
  readonly mtu: number;
  /** With their prefixes, `10.201.0.5/24`; IPv4 first. */
  readonly addresses: readonly string[];
  /** One of each family. */
  readonly gateways: readonly string[];
  readonly nameservers: readonly string[];
  readonly search: readonly string[];
}

/** A program beside that of the pod. Nothing waits for it: it ends with the pod. */
export interface SideProgram {
  readonly argv: readonly string[];
  /** stdout and stderr, appended. */
  readonly logFile: string;
}

export interface SandboxPlan {
  readonly uid: string;
  readonly namespace: string;
  readonly name: string;
  /** Program and arguments that the pod runs. */
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly mounts: readonly SandboxMount[];
  readonly devices?: readonly SandboxDevice[];
  /** `works` leaves /dev/kvm as it is; anything else hides it (docs/decisions/0005). */
  readonly kvm: 'works' | 'fails';
  /** Absent: the pod shares the machine's network. */
  readonly network?: SandboxNetwork;
  /** stdout and stderr, appended. */
  readonly logFile: string;
  readonly beside?: readonly SideProgram[];
}
