import { explainApiVersion, type GuestFigures, readDomainStats, statOf } from '../../../api/index.ts';
import { listOf, memberAt } from '../../../base/index.ts';

const maxDevices = 256;
const kib = 1024;
/** `libvirt.VCPU_OFFLINE` */
const offline = 0;

type Measured = Omit<GuestFigures, 'apiVersion' | 'kind' | 'node' | 'at' | 'uid'>;

/** Of DomainStats (pkg/virt-launcher/virtwrap/stats/types.go). Undefined: the guest is vanishing. Throws for what is no such text. */
export function measuredFigures(json: string): Measured | undefined {
  const stats = readDomainStats(json);
  if (!stats) return undefined;
  return {
    cpuSeconds: (statOf(stats.Cpu, 'Time') ?? 0) / 1e9,
    vcpus: listOf(stats.Vcpu).filter((vcpu) => statOf(vcpu, 'State') !== offline).length,
    memory: memoryOf(stats.Memory),
    disks: devices(stats.Block).map((disk) => ({
      name: nameOf(disk),
      readBytes: statOf(disk, 'RdBytes') ?? 0,
      writtenBytes: statOf(disk, 'WrBytes') ?? 0,
    })),
    interfaces: devices(stats.Net).map((link) => ({
      name: nameOf(link),
      receivedBytes: statOf(link, 'RxBytes') ?? 0,
      sentBytes: statOf(link, 'TxBytes') ?? 0,
    })),
  };
}

function memoryOf(memory: unknown): Measured['memory'] {
  const [available, usable, unused] = ['Available', 'Usable', 'Unused'].map((name) => statOf(memory, name));
  const free = usable ?? unused;
  const resident = statOf(memory, 'RSS');
  return {
    totalBytes: (statOf(memory, 'ActualBalloon') ?? statOf(memory, 'Total') ?? 0) * kib,
    ...(available !== undefined && free !== undefined && { usedBytes: Math.max(0, available - free) * kib }),
    ...(resident !== undefined && { residentBytes: resident * kib }),
  };
}

function devices(list: unknown): readonly unknown[] {
  return listOf(list).slice(0, maxDevices);
}

function nameOf(device: unknown): string {
  const names = [memberAt(device, 'Alias'), memberAt(device, 'Name')];
  return names.filter((name) => typeof name === 'string').find((name) => name !== '') ?? '';
}

export function figuresDocument(measured: Measured, of: { node: string; uid: string; at: Date }): GuestFigures {
  return {
    apiVersion: explainApiVersion,
    kind: 'Figures',
    node: of.node,
    at: of.at.toISOString(),
    uid: of.uid,
    ...measured,
  };
}
