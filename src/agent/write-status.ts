import type { Key, VirtualMachineInstance } from '../api/index.ts';
import type { OwnWrites } from './own-writes.ts';
import type { AgentPorts } from './ports.ts';
import { type Pass, type Projection, project } from './status/index.ts';
import { stillHolds } from './still-holds.ts';

/** Newest object and PUT again, this often, before the key goes to its back-off. */
const conflictTries = 5;

export type WriteOutcome =
  | { readonly kind: 'unchanged' | 'written'; readonly projection: Projection }
  /** The object changed so that the decision may no longer hold: observe again, the newest object is known. */
  | { readonly kind: 'outdated' }
  | { readonly kind: 'gone' }
  | { readonly kind: 'conflicts' };

export interface WritePorts {
  readonly writer: AgentPorts['writer'];
  readonly lookup: AgentPorts['lookup'];
  readonly vmis: OwnWrites;
}

/**
 * Writes what `project` makes of the pass. After a 409 the newest object is read and the same projection is put on it at
 * once, without repeating any call to the launcher (spec 10 §16, 6). Rejects when the API server does not answer.
 */
export async function writeStatus(
  key: Key,
  stored: VirtualMachineInstance,
  pass: Pass,
  ports: WritePorts,
  signal: AbortSignal,
): Promise<WriteOutcome> {
  let base = stored;
  for (let attempt = 0; attempt < conflictTries; attempt++) {
    const projection = project(base, pass);
    if (!projection.vmi) return { kind: 'unchanged', projection };
    const result = await ports.writer.put(projection.vmi, signal);
    if (result.kind === 'written') {
      ports.vmis.saw(key, stored, result.vmi);
      return { kind: 'written', projection };
    }
    if (result.kind === 'gone') return { kind: 'gone' };
    const newest = await ports.lookup.find(key, signal);
    if (!newest) return { kind: 'gone' };
    ports.vmis.saw(key, stored, newest);
    if (!stillHolds(stored, newest)) return { kind: 'outdated' };
    base = newest;
  }
  return { kind: 'conflicts' };
}
