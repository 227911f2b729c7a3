import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { silentLogger, systemClock } from '../../../src/base/index.ts';
import { agentConfigReader, KeptFile, type KubeVirt, KubeVirtSettings } from '../../../src/cluster-config/index.ts';
import { eventually } from '../../fixtures/eventually.ts';
import { KubeVirtObjects } from '../../fixtures/kubevirt-objects.ts';

const fileName = 'last-good-configuration.json';
const asOf = new Date('2026-03-04T05:06:07Z');

let base: string;
let privateDir: string;
let file: string;
beforeEach(() => {
  base = mkdtempSync(path.join(tmpdir(), 'kept-'));
  privateDir = path.join(base, 'private');
  file = path.join(privateDir, fileName);
});
afterEach(() => rmSync(base, { recursive: true, force: true }));

function keptFile(namespace = 'kubevirt'): KeptFile {
  return new KeptFile({ privateDir, namespace }, { clock: systemClock, log: silentLogger });
}

/** An agent as it starts: it has recalled what was kept, and follows the objects. */
async function startedAgent(cluster = new KubeVirtObjects()) {
  const clock = { now: () => asOf };
  const kept = keptFile();
  const settings = new KubeVirtSettings({
    reader: agentConfigReader('node1'),
    kubevirts: cluster,
    kept,
    clock,
    log: silentLogger,
  });
  await settings.recall();
  settings.begin();
  return { cluster, settings };
}

const permittedHostDevices = { pciHostDevices: [{ resourceName: 'example.com/gpu', pciVendorSelector: '10de:1eb8' }] };
const configuration = { permittedHostDevices, developerConfiguration: { useEmulation: true } };
const ksm = { nodeLabelSelector: { matchLabels: { share: 'pages' } } };

function kubevirt(given: unknown = configuration, metadata: object = {}): KubeVirt {
  const identity = { name: 'kubevirt', namespace: 'kubevirt', uid: 'u1', resourceVersion: '7' };
  const spec = { configuration: given, certificateRotateStrategy: { secret: 'none of the agent' } };
  const whole = { apiVersion: 'kubevirt.io/v1', kind: 'KubeVirt', metadata: { ...identity, ...metadata }, spec };
  return { ...whole, status: { phase: 'Deployed' } };
}

/** An agent that reads this object and ends. */
async function keeps(object: KubeVirt): Promise<void> {
  const { cluster, settings } = await startedAgent();
  cluster.set(object);
  await eventually(() => assert.ok(readFileSync(file, 'utf8').includes(`"${object.metadata.resourceVersion}"`)));
  await settings.stop();
}

describe('the last good configuration', () => {
  it('counts for an agent that starts while the API server is away', async () => {
    const tlsConfiguration = { minTLSVersion: 'VersionTLS13' };
    await keeps(kubevirt({ ...configuration, ksmConfiguration: ksm, tlsConfiguration }));
    const { settings } = await startedAgent();
    assert.equal(settings.current.useEmulation, true);
    assert.deepEqual(settings.current.node.permittedHostDevices, permittedHostDevices);
    assert.deepEqual(settings.current.node.ksmNodes, { matchLabels: { share: 'pages' } });
    assert.deepEqual(settings.current.node.tlsConfiguration, tlsConfiguration);
    assert.equal(settings.isKnown, true);
    assert.deepEqual(settings.origin, { from: 'kept', asOf, resourceVersion: '7' });
    await settings.stop();
  });

  it('counts while the object is unusable, or is not there, and the next usable one takes its place', async () => {
    await keeps(kubevirt());
    const { cluster, settings } = await startedAgent();
    cluster.set();
    assert.deepEqual([settings.current.useEmulation, settings.origin.from], [true, 'kept']);
    cluster.set(kubevirt({ memBalloonStatsPeriod: 'often' }, { resourceVersion: '8' }));
    assert.deepEqual([settings.current.useEmulation, settings.origin.from], [true, 'kept']);
    assert.match(settings.problem ?? '', /memBalloonStatsPeriod/);
    cluster.set(kubevirt({}, { resourceVersion: '9' }));
    assert.equal(settings.current.useEmulation, false);
    assert.deepEqual(settings.origin, { from: 'object', asOf, resourceVersion: '9' });
    assert.equal(settings.problem, undefined);
    await eventually(async () => {
      const kept = await keptFile().read();
      assert.equal(kept?.kubevirt.metadata.resourceVersion, '9');
    });
    await settings.stop();
  });

  it('is in a file of this user alone, without what the agent does not read', async () => {
    await keeps(
      kubevirt({ ...configuration }, { annotations: { 'kubevirt.io/vga-display-efi-x86': '', secret: 'x' } }),
    );
    assert.equal(statSync(file).mode & 0o777, 0o600);
    assert.deepEqual(readdirSync(privateDir), [fileName]);
    const text = readFileSync(file, 'utf8');
    assert.equal(text.includes('secret'), false);
    const { settings } = await startedAgent();
    assert.equal(settings.current.clusterFlags.bochsDisplayForEfiGuests, false);
    await settings.stop();
  });

  it('of another namespace counts as none', async () => {
    await keeps(kubevirt());
    assert.equal(await keptFile('other').read(), undefined);
  });

  it('is not kept for an object without identity, or one that is nested too deep', async () => {
    const { cluster, settings } = await startedAgent();
    let deep: unknown = 1;
    for (let depth = 0; depth < 5_000; depth++) deep = { deep };
    cluster.set(kubevirt({ permittedHostDevices: { usb: deep } }));
    cluster.set(kubevirt({}, { uid: undefined }));
    await settings.stop();
    assert.throws(() => statSync(file), { code: 'ENOENT' });
  });

  it('that cannot be written costs nothing but the next start', async () => {
    writeFileSync(privateDir, 'no directory');
    const { cluster, settings } = await startedAgent();
    cluster.set(kubevirt());
    assert.equal(settings.current.useEmulation, true);
    await settings.stop();
  });
});

describe('without a kept configuration', () => {
  it('an object that cannot be used leaves unknown what is configured: nothing is taken back', async () => {
    const { cluster, settings } = await startedAgent();
    assert.deepEqual([settings.isKnown, settings.origin.from], [false, 'defaults']);
    cluster.set(kubevirt({ memBalloonStatsPeriod: 'often' }));
    assert.deepEqual([settings.isKnown, settings.origin.from], [false, 'defaults']);
    cluster.set();
    assert.equal(settings.isKnown, false, 'the object that is gone could not be used');
    await settings.stop();
  });

  it('a cluster whose objects were listed and that has none takes the defaults', async () => {
    const { cluster, settings } = await startedAgent();
    cluster.set();
    assert.deepEqual([settings.isKnown, settings.origin.from], [true, 'defaults']);
    await settings.stop();
  });
});

describe('a kept file counts as none', () => {
  const sound = () => JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>;
  const write = (text: string) => writeFileSync(file, text, { mode: 0o600 });
  const spoilt: readonly (readonly [what: string, spoil: () => void])[] = [
    ['that is torn', () => write(readFileSync(file, 'utf8').slice(0, 100))],
    ['that is empty', () => write('')],
    ['that is no JSON', () => write('\0\u{1f4a3}')],
    ['that is of another format', () => write(JSON.stringify({ ...sound(), version: 2 }))],
    ['that has no date', () => write(JSON.stringify({ ...sound(), asOf: 'once' }))],
    ['without identity', () => write(JSON.stringify({ ...sound(), metadata: { name: 'kubevirt' } }))],
    [
      'with a name that is no text',
      () => write(JSON.stringify({ ...sound(), metadata: { ...(sound().metadata as object), uid: {} } })),
    ],
    ['whose configuration is a list', () => write(JSON.stringify({ ...sound(), configuration: [] }))],
    ['with a field that cannot be used', () => write(JSON.stringify({ ...sound(), configuration: { smbios: 7 } }))],
    [
      'that is nested too deep',
      () => write(`{"version":1,"configuration":${'['.repeat(100_000)}${']'.repeat(100_000)}}`),
    ],
    [
      'that reaches for prototypes',
      () => write(readFileSync(file, 'utf8').replace('"permittedHostDevices"', '"__proto__"')),
    ],
    ['that is too long', () => write(' '.repeat(2 * 1024 * 1024 + 1))],
    ['that others may write to', () => chmodSync(file, 0o622)],
    [
      'that is a link',
      () => {
        writeFileSync(path.join(base, 'elsewhere'), readFileSync(file), { mode: 0o600 });
        rmSync(file);
        symlinkSync(path.join(base, 'elsewhere'), file);
      },
    ],
    [
      'that is a pipe',
      () => {
        rmSync(file);
        assert.equal(spawnSync('mkfifo', ['-m', '600', file]).status, 0);
      },
    ],
    [
      'that is a directory',
      () => {
        rmSync(file);
        mkdirSync(file);
      },
    ],
  ];

  for (const [what, spoil] of spoilt) {
    it(what, async () => {
      await keeps(kubevirt());
      spoil();
      const { settings } = await startedAgent();
      assert.deepEqual([settings.isKnown, settings.origin.from], [false, 'defaults']);
      assert.equal(settings.current.useEmulation, false);
      assert.deepEqual(settings.current.node.permittedHostDevices, undefined);
      await settings.stop();
    });
  }
});
