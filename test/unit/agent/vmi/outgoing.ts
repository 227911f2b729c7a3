import type { MigrationState } from '../../../../src/api/index.ts';
import { key, node } from '../../../fixtures/agent/builders.ts';
import type { FakeLauncher } from '../../../fixtures/agent/fake-launchers.ts';
import { settle } from '../../../fixtures/fake-clock.ts';
import { type Loop, startRunning } from './agent-loop.ts';

/** A guest that runs here and is to leave. */
export type Running = { loop: Loop; launcher: FakeLauncher };

export const ports = { '40000': 0, '40001': 49_152 };

/** The migration controller hands the VMI over. */
export async function handOff({ loop }: Running, migrationUid = 'm1'): Promise<void> {
  loop.api.change(key, (vmi) => {
    vmi.metadata.labels = { ...vmi.metadata.labels, 'kubevirt.io/migrationTargetNodeName': 'node2' };
    vmi.status = {
      ...vmi.status,
      migrationState: { migrationUid, sourceNode: node, targetNode: 'node2', targetPod: 'pod-2' },
    };
  });
  await settle();
}

export async function change({ loop }: Running, more: MigrationState): Promise<void> {
  loop.api.change(key, (vmi) => {
    vmi.status = { ...vmi.status, migrationState: { ...vmi.status?.migrationState, ...more } };
  });
  await settle();
}

export const publish = (running: Running) =>
  change(running, { targetNodeAddress: '10.0.0.2', targetDirectMigrationNodePorts: ports });

/** The target node takes the guest over: one PUT. */
export async function takeOver({ loop }: Running): Promise<void> {
  loop.api.change(key, (vmi) => {
    vmi.metadata.labels = { ...vmi.metadata.labels, 'kubevirt.io/nodeName': 'node2' };
    vmi.status = { ...vmi.status, nodeName: 'node2' };
    Object.assign(vmi.status.migrationState ?? {}, { endTimestamp: loop.launchers.migration.now() });
  });
  await settle();
}

export async function startMigration(t: Parameters<typeof startRunning>[0]): Promise<Running> {
  const running = await startRunning(t);
  await handOff(running);
  await publish(running);
  return running;
}

export const stateOf = ({ loop }: Running): MigrationState => loop.api.stored(key)?.status?.migrationState ?? {};
export const countOf = ({ launcher }: Running, call: string) => launcher.calls.filter((each) => each === call).length;
export const eventsOf = ({ loop }: Running, reason: string) => loop.events.filter((event) => event.reason === reason);
