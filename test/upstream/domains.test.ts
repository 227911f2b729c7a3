import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { test } from 'node:test';
import type { VirtualMachineInstance } from '../../src/api/index.ts';
import { attachments, CorpusPod, type MadeDomain, ourDomain } from '../fixtures/corpus-domains.ts';
import { type CorpusCase, domainCorpus } from '../fixtures/domain-corpus.ts';
import { type Departure, differences, flatDomain, isCovered } from '../fixtures/domain-differences.ts';
import { departures, refusedByUs } from './domain-departures.ts';

interface Upstream extends MadeDomain {
  /** As virt-api stores it. */
  readonly vmi: VirtualMachineInstance;
}

const converter = (JSON.parse(process.env.KUBELET_PARTS ?? '{}') as { readonly converter?: string }).converter ?? '';

function upstream(cases: readonly object[], more: object): Upstream[] {
  const input = JSON.stringify({ cases, ...more });
  return JSON.parse(
    execFileSync(converter, { input, maxBuffer: 2 ** 28, stdio: ['pipe', 'pipe', 'ignore'] }).toString(),
  );
}

/** Both launchers get what virt-api stored, with the same files around them. */
async function bothDomains(
  given: CorpusCase,
  vmi: VirtualMachineInstance,
): Promise<Record<'theirs' | 'ours', MadeDomain>> {
  const pod = new CorpusPod(vmi, given);
  try {
    const ours = await ourDomain(vmi, given, pod);
    const options = { ...given.options, interfaceDomainAttachment: attachments(vmi) };
    const [{ xml = '', error } = {}] = upstream([{ ...given, vmi, options }], { root: pod.root });
    return { ours, theirs: error ? { error } : { xml: xml.replaceAll(pod.root, '') } };
  } finally {
    pod.remove();
  }
}

const defaulted = upstream(domainCorpus, { onlyDefaults: true });
const used = new Set<Departure>();

/** In words, what no departure is about. Of two refusals each has its own words. */
function unexpected(name: string, theirs: MadeDomain, ours: MadeDomain): readonly string[] {
  if (theirs.xml === undefined || ours.xml === undefined) {
    const isExpected =
      theirs.xml === undefined ? ours.xml === undefined : refusedByUs[name]?.message.test(ours.error ?? '');
    return isExpected ? [] : [`upstream: ${theirs.error ?? 'converts'}, ours: ${ours.error ?? 'converts'}`];
  }
  const found = differences(flatDomain(theirs.xml), flatDomain(ours.xml)).filter((difference) => {
    const covering = departures.filter((departure) => isCovered(name, difference, departure));
    for (const one of covering) used.add(one);
    return covering.length === 0;
  });
  return found.map(
    ({ path, theirs, ours }) => `${path}: upstream has ${theirs ?? 'nothing'}, ours ${ours ?? 'nothing'}`,
  );
}

for (const [index, given] of domainCorpus.entries()) {
  test(`the domain of a VMI is upstream's: ${given.name}`, async () => {
    const { vmi, error } = defaulted[index] ?? {};
    assert.ok(vmi, error);
    const { theirs, ours } = await bothDomains(given, vmi);
    assert.deepEqual(unexpected(given.name, theirs, ours), []);
    assert.equal(given.name in refusedByUs, theirs.xml !== undefined && ours.xml === undefined, ours.error);
  });
}

test('each departure is one, and each case has a name of its own', () => {
  assert.deepEqual(
    departures.filter((departure) => !used.has(departure)),
    [],
  );
  const names = domainCorpus.map(({ name }) => name);
  assert.deepEqual(
    names.filter((name, index) => names.indexOf(name) !== index),
    [],
  );
  assert.deepEqual(
    Object.keys(refusedByUs).filter((name) => !names.includes(name)),
    [],
  );
});
