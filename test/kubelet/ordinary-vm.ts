import { execFileSync } from 'node:child_process';
import { chownSync, mkdirSync, readdirSync, truncateSync, writeFileSync } from 'node:fs';
import { bindClaim, guestKernel, launcherPod, userData } from './guests.ts';
import type { NodeMachine } from './node-machine.ts';

/** Where the guest is in the network, and what its disks begin with. */
const whenAsked = `ip -4 address show dev eth0
ip route
cat /etc/resolv.conf
echo "image $(head -c 16 /dev/vdb)"
for disk in /dev/sd?; do
  [ -b $disk ] || continue
  echo "plugged $(cat /sys/class/block/\${disk#/dev/}/size) $(head -c 16 $disk)"
  printf 'written by guest' | dd of=$disk bs=512 seek=1 conv=fsync,notrunc 2>/dev/null
done
`;

const privateDir = '/var/run/kubevirt-private';
const diskBytes = 32 << 20;
export const pluggedLine = `plugged ${diskBytes / 512} content of claim`;

interface Disk {
  readonly disk: object;
  readonly volume: object;
}

const seed: Disk = {
  disk: { name: 'seed', disk: { bus: 'virtio' } },
  volume: { name: 'seed', cloudInitNoCloud: { userData: userData({ whenAsked }) } },
};
const image: Disk = {
  disk: { name: 'image', disk: { bus: 'virtio' } },
  volume: { name: 'image', containerDisk: { image: 'localhost/guest:1' } },
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

  constructor(machine: NodeMachine, name: string) {
    this.#machine = machine;
    this.name = name;
  }

  create(): void {
    const devices = { interfaces: [{ name: 'default', masquerade: {} }], disks: [seed.disk, image.disk] };
    const domain = {
      resources: { requests: { memory: '192Mi' } },
      firmware: { kernelBoot: guestKernel },
      devices,
    };
    const spec = {
      domain,
      networks: [{ name: 'default', pod: {} }],
      volumes: [seed.volume, image.volume],
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
    const all = [seed, image, ...claims.map(claimed)];
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
