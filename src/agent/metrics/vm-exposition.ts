import { type Family, head, type Label, labelText, sampleLine } from './exposition.ts';
import { named } from './named.ts';
import type { VmCounters } from './vm-counters.ts';
import { panicFamily, sampleAgeFamily, sampledFamilies, sampleErrorsFamily, syncFamily } from './vm-families.ts';
import type { SampledVm } from './vm-sampler.ts';

/** Characters of text between two looks at the event loop; several times what a socket takes at once. */
const pieceLength = 256 * 1024;

/** All series of VMs, as pieces of text; each family has one block with the lines of all VMs. */
export function* vmExposition(
  vms: readonly SampledVm[],
  counters: Pick<VmCounters, 'syncs' | 'panics'>,
): Generator<string> {
  let piece = '';
  for (const text of blocks(vms, counters)) {
    piece += text;
    if (piece.length < pieceLength) continue;
    yield piece;
    piece = '';
  }
  if (piece !== '') yield piece;
}

function* blocks(vms: readonly SampledVm[], counters: Pick<VmCounters, 'syncs' | 'panics'>) {
  for (const family of sampledFamilies) yield* sampledBlock(family, vms);
  yield* block(syncFamily, counters.syncs());
  yield* block(panicFamily, counters.panics());
  yield* block(sampleAgeFamily, ages(vms));
  yield* block(sampleErrorsFamily, errors(vms));
}

function* sampledBlock(family: Family, vms: readonly SampledVm[]): Generator<string> {
  let isFirst = true;
  for (const { lines } of vms) {
    for (const source of lines) {
      const text = source.get(family.name);
      if (text === undefined) continue;
      if (isFirst) yield head(family);
      isFirst = false;
      yield text;
    }
  }
}

type Series = readonly [labels: readonly Label[], value: number];

function* block(family: Family, series: Iterable<Series>): Generator<string> {
  let isFirst = true;
  for (const [labels, value] of series) {
    if (isFirst) yield head(family);
    isFirst = false;
    yield sampleLine(family.name, labelText(labels), value);
  }
}

function* ages(vms: readonly SampledVm[]): Generator<Series> {
  for (const { key, sources } of vms) {
    for (const { source, ageMs } of sources) {
      if (ageMs !== undefined) yield [[...named(key), ['source', source]], Math.round(ageMs) / 1000];
    }
  }
}

function* errors(vms: readonly SampledVm[]): Generator<Series> {
  for (const { key, sources } of vms) {
    for (const { source, errors } of sources) yield [[...named(key), ['source', source]], errors];
  }
}
