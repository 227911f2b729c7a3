import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { rmSync, statSync, truncateSync } from 'node:fs';
import path from 'node:path';
import { type TestContext, test } from 'node:test';
import type { VirtualMachineInstance } from '../../../src/api/index.ts';
import { silentLogger } from '../../../src/base/index.ts';
import { type ConverterOptions, readLiveDomain } from '../../../src/launcher/domain/index.ts';
import { parseLauncherFlags } from '../../../src/launcher/flags.ts';
import { HypervisorChoice, prepareDomain } from '../../../src/launcher/lifecycle/index.ts';
import { launcherArgs, noHooks } from '../../fixtures/launcher-vmi.ts';
import { imageDir, sandbox } from '../../unit/launcher/disks/sandbox.ts';
import { migratingVmi, migrationBench } from '../../unit/launcher/migration/bench.ts';

const parsed = parseLauncherFlags([...launcherArgs, '--allow-emulation']);
const flags = parsed.kind === 'options' ? parsed.options : assert.fail();
const choice = new HypervisorChoice({ flags, kvm: 'fails', device: '/dev/null' }, { log: silentLogger });

/** A pod with the guest's image mounted; `prepare` does the real work on its files, and gives the domain. */
function podOf(t: TestContext) {
  const box = sandbox(t);
  const image = box.put(`${imageDir(0)}/disk/root.qcow2`);
  execFileSync('qemu-img', ['create', '-q', '-f', 'qcow2', image, '8M']);
  const { paths } = box.env;
  const options = {
    flags,
    environment: { network: 'user', child: {} },
    architecture: 'amd64',
    paths,
    cpuSet: [0],
    libvirtVersion: async () => 9_000_000,
    owner: undefined,
    hooks: noHooks,
  } as const;
  const setUpNetwork = async () => new Map();
  return {
    root: box.root,
    prepare: (vmi: VirtualMachineInstance, converter: ConverterOptions = {}) =>
      prepareDomain(vmi, converter, { ...options, setUpNetwork }, choice),
  };
}

function guestOf(status: object = {}): VirtualMachineInstance {
  const vmi = migratingVmi('m1', status);
  const volumes = [
    { name: 'root', containerDisk: { image: 'example/root' } },
    { name: 'scratch', emptyDisk: { capacity: '16Mi' } },
    { name: 'seed', cloudInitNoCloud: { userData: '#cloud-config' } },
  ];
  return { ...vmi, spec: { ...vmi.spec, volumes } } as VirtualMachineInstance;
}

/** Volume → file below the pod's root, and bytes that a guest sees. */
function disksOf(root: string, xml: string): Record<string, [file: string, bytes: number]> {
  return Object.fromEntries(
    readLiveDomain(xml).disks.map(({ name, source }) => {
      const info = execFileSync('qemu-img', ['info', '--output=json', source], { encoding: 'utf8' });
      return [name, [path.relative(root, source), JSON.parse(info)['virtual-size']]];
    }),
  );
}

test('pitfall 5: a pod that a guest comes to gets each of its disks, as large as it is where it comes from', async (t) => {
  const [source, target] = [podOf(t), podOf(t)];
  const there = await source.prepare(guestOf());
  const seed = readLiveDomain(there).disks.find(({ name }) => name === 'seed')?.source ?? assert.fail();
  // As another version of genisoimage makes it.
  truncateSync(seed, statSync(seed).size + 8192);
  const wanted = disksOf(source.root, there);
  assert.deepEqual([wanted.root?.[1], wanted.scratch?.[1]], [8 * 2 ** 20, 16 * 2 ** 20]);
  const moving = guestOf({ volumeStatus: [{ name: 'seed', target: 'sda', size: wanted.seed?.[1] }] });
  let xml = '';
  const prepare = async (vmi: VirtualMachineInstance, converter: ConverterOptions) => {
    xml = await target.prepare(vmi, converter);
    return xml;
  };
  const { migration } = await migrationBench(t, { role: 'target', prepare });
  await migration.prepareTarget(moving, {});
  assert.deepEqual(disksOf(target.root, xml), wanted);
  const [scratch = ''] = wanted.scratch ?? [];
  rmSync(path.join(target.root, scratch));
  await migration.prepareTarget(moving, {});
  assert.deepEqual(disksOf(target.root, xml), wanted);
});
