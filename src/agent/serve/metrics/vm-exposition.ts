import { type Family, head, type Label, labelText, sampleLine } from '../../../serving/index.ts';
import { named } from './named.ts';
import { rangeOf } from './packed-lines.ts';
import { Pieces } from './pieces.ts';
import type { VmCounters } from './vm-counters.ts';
import { panicFamily, sampleAgeFamily, sampledFamilies, sampleErrorsFamily, syncFamily } from './vm-families.ts';
import type { SampledVm } from './vm-sampler.ts';

/** Bytes between two looks at the event loop: less than a millisecond's work, several times what a socket takes at once. */
const pieceBytes = 128 * 1024;

/** All series of VMs, as pieces of text; each family has one block with the lines of all VMs. */
export function* vmExposition(
  vms: readonly SampledVm[],
  counters: Pick<VmCounters, 'syncs' | 'panics'>,
): Generator<Buffer> {
  const pieces = new Pieces(pieceBytes);
  for (const [index, family] of sampledFamilies.entries()) {
    let isFirst = true;
    for (const { lines } of vms) {
      for (const packed of lines) {
        const [start, end] = rangeOf(packed, index);
        if (start === end) continue;
        if (isFirst) pieces.text(head(family));
        isFirst = false;
        pieces.copy(packed.bytes, start, end);
        if (pieces.hasFull) yield* pieces.taken();
      }
    }
  }
  for (const text of otherBlocks(vms, counters)) {
    pieces.text(text);
    if (pieces.hasFull) yield* pieces.taken();
  }
  yield* pieces.end();
}

function* otherBlocks(vms: readonly SampledVm[], counters: Pick<VmCounters, 'syncs' | 'panics'>): Generator<string> {
  yield* block(syncFamily, counters.syncs());
  yield* block(panicFamily, counters.panics());
  yield* headed(sampleAgeFamily, ages(vms));
  yield* headed(sampleErrorsFamily, errors(vms));
}

type Series = readonly [labels: readonly Label[], value: number];

function* block(family: Family, series: Iterable<Series>): Generator<string> {
  yield* headed(family, linesOf(family, series));
}

function* linesOf({ name }: Family, series: Iterable<Series>): Generator<string> {
  for (const [labels, value] of series) yield sampleLine(name, labelText(labels), value);
}

function* headed(family: Family, lines: Iterable<string>): Generator<string> {
  let isFirst = true;
  for (const line of lines) {
    if (isFirst) yield head(family);
    isFirst = false;
    yield line;
  }
}

/** Names of sources need no escaping. */
function* ages(vms: readonly SampledVm[]): Generator<string> {
  const { name } = sampleAgeFamily;
  for (const { key, sources } of vms) {
    const labels = labelText(named(key));
    for (const { source, ageMs } of sources) {
      if (ageMs !== undefined) yield `${name}{${labels},source="${source}"} ${Math.round(ageMs) / 1000}\n`;
    }
  }
}

function* errors(vms: readonly SampledVm[]): Generator<string> {
  const { name } = sampleErrorsFamily;
  for (const { key, sources } of vms) {
    const labels = labelText(named(key));
    for (const { source, errors: count } of sources) yield `${name}{${labels},source="${source}"} ${count}\n`;
  }
}
