import { execFileSync } from 'node:child_process';
import { chownSync, mkdirSync, readdirSync, truncateSync, writeFileSync } from 'node:fs';
import { bindClaim, guestKernel, guestKernelWithAgent, launcherPod, startGuestAgent, userData } from './guests.ts';
import type { NodeMachine } from './node-machine.ts';

/** Where the guest is in the network, what its disks begin with, and whether its file system takes what is written. */
const whenAsked = `ip -4 address show dev eth0
ip route
cat /etc/resolv.conf
echo "image $(head -c 16 /dev/vdb)"
for disk in /dev/sd?; do
  [ -b $disk ] || continue
  echo "plugged $(cat /sys/class/block/\${disk#/dev/}/size) $(head -c 16 $disk)"
  printf 'written by guest' | dd of=$disk bs=512 seek=1 conv=fsync,notrunc 2>/dev/null
done
if grep -q ' /data ' /proc/mounts; then
  (exec >/dev/null 2>&1; echo asked >/data/asked) &
  sleep 1
  if kill -0 $! 2>/dev/null; then echo data is frozen; else echo data is written; fi
fi
`;

const privateDir = '/var/run/kubevirt-private';
const diskBytes = 32 << 20;
export const pluggedLine = `plugged ${diskBytes / 512} content of claim`;

interface Disk {
  readonly disk: object;
  readonly volume: object;
}

const seedOf = (atBoot: string): Disk => ({
  disk: { name: 'seed', disk: { bus: 'virtio' } },
  volume: { name: 'seed', cloudInitNoCloud: { userData: userData({ atBoot, whenAsked }) } },
});
const image: Disk = {
  disk: { name: 'image', disk: { bus: 'virtio' } },
  volume: { name: 'image', containerDisk: { image: 'localhost/guest:1' } },
};
/** By its serial number the guest knows it, and keeps a file system at /data. */
const data: Disk = {
  disk: { name: 'data', disk: { bus: 'virtio' }, serial: 'data' },
  volume: { name: 'data', emptyDisk: { capacity: '32Mi' } },
};
const claimed = (name: string): Disk => ({
  disk: { name, disk: { bus: 'scsi' } },
  volume: { name, persistentVolumeClaim: { claimName: name, hotpluggable: true } },
});

const mounts = () => execFileSync('findmnt', ['-rno', 'TARGET'], { encoding: 'utf8' }).split('\n');
export const mountsOf = (text: string) => mounts().filter((target) => target.includes(text));

/** A VM with the network of its pod, a kernel and a disk from an image that is mounted, and claims that are plugged while it runs. */
export class OrdinaryVm {
  readonly #machine: NodeMachine;
  readonly name: string;
  readonly #kernel: object;
  readonly #disks: readonly Disk[];

  /** One with a guest agent has a file system that can be frozen, too. */
  constructor(machine: NodeMachine, name: string, { hasAgent = false } = {}) {
    this.#machine = machine;
    this.name = name;
    this.#kernel = hasAgent ? guestKernelWithAgent : guestKernel;
    this.#disks = hasAgent ? [seedOf(startGuestAgent), image, data] : [seedOf(''), image];
  }

  create(): void {
    const disks = this.#disks.map(({ disk }) => disk);
    const devices = { interfaces: [{ name: 'default', masquerade: {} }], disks };
    const domain = {
      resources: { requests: { memory: '192Mi' } },
      firmware: { kernelBoot: this.#kernel },
      devices,
    };
    const spec = {
      domain,
      networks: [{ name: 'default', pod: {} }],
      volumes: this.#disks.map(({ volume }) => volume),
      terminationGracePeriodSeconds: 1,
    };
    const metadata = { name: this.name };
    this.#machine.create({ apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstance', metadata, spec });
  }

  // biome-ignore lint/suspicious/noExplicitAny: tests look into objects of every shape
  get vmi(): any {
    return this.#machine.get('vmi', this.name);
  }

  // biome-ignore lint/suspicious/noExplicitAny: as above
  get pod(): any {
    return launcherPod(this.#machine, this.name);
  }

  /** On a folder of the node; what a claim of its user is bound to. */
  makeClaim(name: string): string {
    const folder = `/var/claims/${name}`;
    mkdirSync(folder, { recursive: true });
    writeFileSync(`${folder}/disk.img`, 'content of claim');
    truncateSync(`${folder}/disk.img`, diskBytes);
    for (const file of [folder, `${folder}/disk.img`]) chownSync(file, 107, 107);
    bindClaim(this.#machine, name, { hostPath: { path: folder } });
    return `${folder}/disk.img`;
  }

  /** Plugged are these claims, and no others. */
  plug(...claims: readonly string[]): void {
    const all = [...this.#disks, ...claims.map(claimed)];
    const [disks, volumes] = [all.map(({ disk }) => disk), all.map(({ volume }) => volume)];
    const patch = JSON.stringify({ spec: { domain: { devices: { disks } }, volumes } });
    this.#machine.api.kubectl('patch', 'vmi', this.name, '--type=merge', '-p', patch);
  }

  // biome-ignore lint/suspicious/noExplicitAny: as above
  statusOf(volume: string): any {
    return this.vmi.status.volumeStatus?.find(({ name }: { name: string }) => name === volume);
  }

  /** Of this VM, in the folders of the agent. */
  static leftOf(uid: string): string[] {
    const entries = readdirSync(privateDir, { recursive: true, encoding: 'utf8' });
    return entries.filter((name) => name.includes(uid));
  }
}
