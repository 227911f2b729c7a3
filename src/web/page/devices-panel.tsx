import { useLayoutEffect } from 'preact/hooks';
import type { VmRow } from '../rows.ts';
import { diskLines, interfaceLines } from './devices-model.ts';
import { Card, Nothing, Row, Table } from './elements.tsx';
import { getVm, getVmi } from './kube-calls.ts';
import { useOwned } from './owned.ts';
import { Poll, Polled } from './polled.tsx';
import type { Vm } from './server-calls.ts';
import { messageOf } from './words.ts';

/** `spec` and `status`: of the instance where there is one, else of the template of the next. */
interface Machine {
  readonly spec: unknown;
  readonly status: unknown;
  readonly isRunning: boolean;
}

/** Disks and networks of a VM. */
export function DevicesPanel({ vm, row }: { readonly vm: Vm; readonly row: VmRow | undefined }) {
  const poll = useOwned(() => new Poll((signal) => machineOf(vm, signal)));
  useLayoutEffect(() => void poll.now(), [poll, row]);
  return (
    <div class="why">
      <Polled poll={poll} failureText={(error) => `Its devices cannot be shown: ${messageOf(error)}`}>
        {(machine) => <Devices machine={machine} />}
      </Polled>
    </div>
  );
}

async function machineOf(vm: Vm, signal: AbortSignal): Promise<Machine> {
  const [object, instance] = await Promise.all([getVm(vm, signal), getVmi(vm, signal)]);
  if (instance) return { spec: instance.spec, status: instance.status, isRunning: true };
  return { spec: object?.spec.template.spec, status: undefined, isRunning: false };
}

const diskHead = ['Disk', 'Kind', 'Source', 'Size', 'In the guest', 'State'];
const linkHead = ['Interface', 'Binding', 'Network', 'MAC address', 'Addresses', 'In the guest'];

export function Devices({ machine: { spec, status, isRunning } }: { readonly machine: Machine }) {
  const disks = diskLines(spec, status);
  const links = interfaceLines(spec, status);
  return (
    <>
      {!isRunning && <p class="hint">It does not run: this is what it gets at its next start.</p>}
      <Card title="Disks">
        {disks.length === 0 ? <Nothing>It has no disk.</Nothing> : <Lines head={diskHead} lines={disks} />}
      </Card>
      <Card title="Networks">
        {links.length === 0 ? (
          <Nothing>It names no interface: it gets one on the pod network unless it says otherwise.</Nothing>
        ) : (
          <Lines head={linkHead} lines={links} />
        )}
      </Card>
    </>
  );
}

interface LinesProps {
  readonly head: readonly string[];
  readonly lines: readonly { readonly name: string }[];
}

/** In the order of their fields, which is that of the head. */
function Lines({ head, lines }: LinesProps) {
  return (
    <Table head={head} stacks>
      {lines.map((line) => (
        <Row key={line.name} head={head} cells={Object.values(line)} />
      ))}
    </Table>
  );
}
