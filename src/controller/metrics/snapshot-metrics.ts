import { Gauge, type Registry } from 'prom-client';
import type { VirtualMachineSnapshot } from '../../api/index.ts';

export interface CountedSnapshots {
  /** Series come from the leader only. */
  readonly isLeading: () => boolean;
  readonly snapshots: () => readonly VirtualMachineSnapshot[];
}

export function addSnapshotMetrics(registry: Registry, { isLeading, snapshots }: CountedSnapshots): void {
  new Gauge({
    name: 'kubevirt_vmsnapshot_succeeded_timestamp_seconds',
    help: 'Returns the timestamp of successful virtual machine snapshot.',
    labelNames: ['name', 'snapshot_name', 'namespace'],
    registers: [registry],
    collect() {
      this.reset();
      if (!isLeading()) return;
      for (const { metadata, spec, status } of snapshots()) {
        const seconds = Date.parse(status?.creationTime ?? '') / 1000;
        if (status?.phase !== 'Succeeded' || !Number.isFinite(seconds)) continue;
        const { name, namespace = '' } = metadata;
        this.set({ name: spec.source.name, snapshot_name: name, namespace }, seconds);
      }
    },
  });
}
