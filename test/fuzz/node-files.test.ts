import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import fc from 'fast-check';
import { groupsInUse } from '../../src/agent/node/devices/groups-in-use.ts';
import { readHostDevices } from '../../src/agent/node/devices/host-devices.ts';
import { uevent } from '../../src/agent/node/devices/sysfs.ts';
import { readTopology } from '../../src/agent/node/facts/host-topology.ts';
import { readHostModel } from '../../src/agent/node/facts/node-facts.ts';
import {
  readCapabilities,
  readDomainCapabilities,
  readSupportedFeatures,
} from '../../src/agent/node/labels/documents.ts';
import { planLabels } from '../../src/agent/node/labels/plan.ts';
import { LibvirtFileError } from '../../src/agent/node/libvirt-xml/index.ts';
import { parseBody } from '../../src/agent/serve/rest/bodies.ts';
import {
  backupCheckpoint,
  backupOptions,
  launchSecret,
  unfreezeAfterSeconds,
} from '../../src/agent/serve/rest/body-shapes.ts';
import { RestError } from '../../src/agent/serve/rest/errors.ts';
import { binaryQuantity, parseDomainName, parseKey, parseQuantity } from '../../src/api/index.ts';
import { FlagError, parseGoDurationMs, parseGoFlags, whyUnsafe } from '../../src/base/index.ts';
import { agentConfigReader, controllerConfigReader, type KubeVirt } from '../../src/cluster-config/index.ts';
import { fromKeptText } from '../../src/cluster-config/kept-configuration.ts';
import { parseCpuList } from '../../src/host/cpu-set.ts';
import { isProcessAlive } from '../../src/host/peer.ts';
import { parseProcessStat } from '../../src/host/process-stat.ts';
import { parseCommand } from '../../src/standalone/cli/command.ts';
import { FormFile } from '../../src/standalone/data-volumes/form-file.ts';
import { NodeError } from '../../src/standalone/errors.ts';
import { accountFiles } from '../../src/standalone/pod-runner/accounts.ts';
import { ImageStore } from '../../src/standalone/pod-runner/images.ts';
import { shellQuote } from '../../src/standalone/pod-runner/shell-quote.ts';
import { formatIdentity, parseIdentity } from '../../src/standalone/process-identity.ts';
import { readTlsSettings } from '../../src/tls/index.ts';
import { defaults, factsOf, hostsDir } from '../unit/agent/node/labels/facts.ts';
import { base } from '../unit/controller/builders.ts';
import {
  changedJson,
  changedText,
  changedValue,
  fuzz,
  hostileText,
  judged,
  judgedLater,
  repeated,
} from './kit/index.ts';

/** Texts and files of the node, of its users and of the cluster's administrators. */

const quantities = ['1', '64Mi', '1500m', '1e3', '0.5Gi', '-1', '12E', '1.5e-3', '100Ki'];

fuzz('api: quantities', {
  input: changedText(quantities, ['e', 'E', '.', 'Ki', 'm', '+', '-']),
  parse: (text) => {
    const value = parseQuantity(text);
    if (value === undefined) return 'refused';
    assert.equal(typeof value, 'number');
    assert.ok(!Number.isNaN(value));
    return 'accepted';
  },
  growing: {
    digits: repeated('1'),
    zeros: repeated('0', '', 'x'),
    'digits after a point': repeated('1', '1.', 'y'),
    exponents: repeated('1', '1e'),
  },
});

fuzz('api: what a quantity is written as is read as the same', {
  input: fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }),
  parse: (value) => {
    assert.equal(parseQuantity(binaryQuantity(value)), value);
    return 'accepted';
  },
  refusesNothing: true,
});

fuzz('base: durations', {
  input: changedText(['1m30s', '-1.5h', '500ms', '0', '2µs'], ['h', 'm', 's', 'ns', '.', '-', '+']),
  parse: (text) => {
    const value = parseGoDurationMs(text);
    if (value === undefined) return 'refused';
    assert.ok(!Number.isNaN(value));
    return 'accepted';
  },
  growing: { terms: repeated('1h'), digits: repeated('1'), points: repeated('1.', '', 'x') },
});

const flags = {
  name: { kind: 'string', fallback: '', help: 'a' },
  verbose: { kind: 'int', fallback: 2, help: 'b', short: 'v' },
  wait: { kind: 'duration', fallback: 5, help: 'c' },
  on: { kind: 'bool', fallback: false, help: 'd' },
  each: { kind: 'list', fallback: [], help: 'e' },
} as const;
const argument = fc.oneof(
  fc.constantFrom('--name', '--name=x', '-v', '3', '-v=7', '--on', '--wait=1m', '--each=a', '--'),
  hostileText(['--', '=', '-v']),
);

fuzz('base: command lines as Go reads them', {
  input: fc.array(argument, { maxLength: 8, size: 'max' }),
  parse: (argv) =>
    judged(
      (error) => error instanceof FlagError,
      () => {
        const values = parseGoFlags(flags, argv);
        assert.ok(values === undefined || Number.isSafeInteger(values.verbose));
      },
    ),
});

const commandWord = fc.oneof(
  fc.constantFrom(
    'start',
    'console',
    'why',
    'image',
    'add',
    'vm',
    '--state-dir',
    '/x',
    '--port=5',
    '-v',
    '2',
    'default/vm',
    '--namespace',
    'up',
    'vnc',
    'stop',
  ),
  hostileText(['--', '=']),
);

fuzz('node: command lines', {
  input: fc.array(commandWord, { maxLength: 8, size: 'max' }),
  parse: (argv) =>
    judged(
      (error) => error instanceof NodeError,
      () => {
        const command = parseCommand(argv);
        assert.equal(typeof command.command, 'string');
      },
    ),
});

fuzz('agent: lists of CPUs', {
  input: changedText(['0-3,8', '0', '1,2,3', '10-20,40-41'], ['-', ',', '^2', '0-4294967295', '0-49999', '99999']),
  parse: (text) => {
    const cpus = parseCpuList(text);
    if (!cpus) return 'refused';
    assert.ok(cpus.length <= 50_000 && cpus.every((cpu) => Number.isSafeInteger(cpu)));
    return 'accepted';
  },
  growing: { singles: repeated('1,', '', '1'), ranges: repeated('0-49999,', '', '1'), digits: repeated('1') },
});

const documentOf = (host: string, file: string) => readFileSync(path.join(hostsDir, host, file), 'utf8');
/** The real ones have thousands of lines: an excerpt is changed faster, and has all kinds of elements. */
const domainCapabilities = documentOf('real-nested-kvm', 'virsh_domcapabilities.xml');
const capabilities = `<capabilities><host><cpu><arch>x86_64</arch><counter name='tsc' frequency='2400000000' scaling='yes'/></cpu><topology><cells num='1'><cell id='0'><memory unit='KiB'>1024</memory><pages unit='KiB' size='4'>256</pages><distances><sibling id='0' value='10'/></distances><cpus num='2'><cpu id='0' socket_id='0' siblings='0-1'/><cpu id='1' siblings='0,1'/></cpus></cell></cells></topology></host><guest><os_type>hvm</os_type><arch name='x86_64'><machine maxCpus='255' deprecated='yes'>pc-i440fx-2.0</machine><machine>q35</machine></arch></guest></capabilities>`;
const smallDomainCapabilities = `<domainCapabilities><path>/usr/bin/qemu</path><cpu><mode name='host-model' supported='yes'><model fallback='forbid'>Skylake</model><vendor>Intel</vendor><feature policy='require' name='vmx'/></mode><mode name='custom'><model usable='yes' vendor='Intel'>Skylake</model><model usable='no'>Haswell</model></mode></cpu><features><sev supported='yes'><maxESGuests>5</maxESGuests></sev><hyperv supported='yes'><enum name='features'><value>stimer</value></enum></hyperv></features></domainCapabilities>`;
const features = `<cpu mode='custom' match='exact'><model>Skylake</model><feature policy='require' name='vmx'/><feature policy='disable' name='hle'/></cpu>`;
const xmlWords = [
  '<!DOCTYPE a [<!ENTITY b "c">]>',
  '&b;',
  '&#0;',
  '&#x110000;',
  '<![CDATA[',
  ']]>',
  '<!--',
  '<a b="',
  '</cpu>',
  "<feature policy='require' name='",
  '<?xml',
  'xmlns:a="b"',
  'constructor',
  '__proto__',
  '@',
];
const isLibvirtFileError = (error: unknown) => error instanceof LibvirtFileError;
const xmlGrowing = {
  elements: repeated('<a>', '<cpu>'),
  'elements that end': repeated('<a></a>', '<cpu>', '</cpu>'),
  attributes: (bytes: number) =>
    `<cpu ${Array.from({ length: bytes / 10 }, (_, index) => `a${index}='b'`).join(' ')}/>`,
  'brackets without end': repeated('<'),
  blanks: repeated(' ', '<cpu', '/>'),
  comments: repeated('<!---->', '<cpu>', '</cpu>'),
  'comments without end': repeated('<!--', '<cpu>'),
  'character data without end': repeated('<![CDATA[', '<cpu>'),
  ampersands: repeated('&', '<cpu>', '</cpu>'),
  instructions: repeated('<?a', '<cpu>'),
  features: repeated("<feature policy='require' name='x'/>", '<cpu>', '</cpu>'),
  'names of features': (bytes: number) =>
    `<cpu>${Array.from({ length: Math.min(1_999, bytes / 40) }, (_, index) => `<feature policy='require' name='x${index}'/>`).join('')}</cpu>`,
};

fuzz('agent: capability files of libvirt', {
  input: changedText([domainCapabilities.slice(0, 6_000), smallDomainCapabilities, capabilities, features], xmlWords),
  parse: (text) => {
    const readers = [readDomainCapabilities, readCapabilities, (xml: string) => readSupportedFeatures(xml, 'amd64')];
    const verdicts = readers.map((read) => judged(isLibvirtFileError, () => void read(text)));
    return verdicts.includes('accepted') ? 'accepted' : 'refused';
  },
  growing: xmlGrowing,
  growingTo: 2 ** 18,
});

fuzz('agent: node labels of any capability file', {
  input: changedText([smallDomainCapabilities], xmlWords),
  parse: (text) =>
    judged(isLibvirtFileError, () => {
      const domain = { kind: 'known', value: readDomainCapabilities(text), from: 'x' } as const;
      const { labels } = planLabels(factsOf('intel-cascadelake', 'amd64', { domain }), defaults);
      for (const [key, value] of Object.entries(Object.fromEntries(labels))) {
        assert.match(key, /^(?:[a-z0-9][-a-z0-9.]{0,251}[a-z0-9]\/)?[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$/);
        assert.equal(typeof value, 'string');
      }
    }),
});

fuzz('agent: topology and host model out of capability files', {
  input: changedText([capabilities, smallDomainCapabilities], [...xmlWords, '0-99999', '0-99999,0-99999']),
  parse: (text) => {
    const cells = readTopology(text);
    const model = readHostModel(text);
    assert.ok(
      cells.every(({ cpus, id }) => Number.isSafeInteger(id) && cpus.every(({ id: cpu }) => Number.isSafeInteger(cpu))),
    );
    assert.ok(JSON.stringify(cells).length < 64 * text.length + 400_000);
    return cells.length > 0 || model !== undefined ? 'accepted' : 'refused';
  },
  growing: {
    ...xmlGrowing,
    'siblings in ranges': (bytes) =>
      `<capabilities><host><topology><cells><cell id='0'><cpus><cpu id='0' siblings='${'0-99999,'.repeat(bytes / 8)}'/></cpus></cell></cells></topology></host></capabilities>`,
  },
  growingTo: 2 ** 18,
});

const configuration = {
  developerConfiguration: {
    featureGates: ['Root'],
    useEmulation: true,
    minimumReservePVCBytes: 5,
    pvcTolerateLessSpaceUpToPercent: 3,
    cpuAllocationRatio: 10,
  },
  permittedHostDevices: {
    pciHostDevices: [{ pciVendorSelector: '10de:1eb8', resourceName: 'nvidia.com/T4' }],
    mediatedDevices: [{ mdevNameSelector: 'GRID T4-1Q', resourceName: 'nvidia.com/GRID' }],
    usb: [{ resourceName: 'k/u', selectors: [{ vendor: '046d', product: 'c52b' }] }],
  },
  migrations: { bandwidthPerMigration: '64Mi', completionTimeoutPerGiB: 5, parallelMigrationsPerCluster: 5 },
  mediatedDevicesConfiguration: {
    mediatedDeviceTypes: ['a'],
    nodeMediatedDeviceTypes: [{ nodeSelector: { a: 'b' }, mediatedDeviceTypes: ['c'] }],
  },
  ksmConfiguration: {
    nodeLabelSelector: { matchLabels: { a: 'b' }, matchExpressions: [{ key: 'k', operator: 'In', values: ['v'] }] },
  },
  tlsConfiguration: { minTLSVersion: 'VersionTLS12', ciphers: ['TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256'] },
  smbios: { family: 'f' },
  supportedGuestAgentVersions: ['2.*'],
  memBalloonStatsPeriod: 10,
  network: { binding: { passt: { sidecarImage: 'x', domainAttachmentType: 'tap' } } },
  virtualMachineOptions: { disableFreePageReporting: {} },
  handlerConfiguration: { restClient: { rateLimiter: { tokenBucketRateLimiter: { qps: 5, burst: 10 } } } },
  obsoleteCPUModels: { x: true },
  vmRolloutStrategy: 'LiveUpdate',
  evictionStrategy: 'None',
};
const kubevirt = {
  apiVersion: 'kubevirt.io/v1',
  kind: 'KubeVirt',
  metadata: { name: 'kubevirt', namespace: 'kubevirt', annotations: { 'kubevirt.io/vga-display-efi-x86': '' } },
  spec: { configuration },
  status: { phase: 'Deployed' },
};

fuzz('agent: a KubeVirt object with anything anywhere', {
  input: changedValue([kubevirt.spec.configuration], { depths: [3, 40, 3_000] }),
  parse: (value) => {
    const reading = agentConfigReader('node1').read({ ...kubevirt, spec: { configuration: value } });
    readTlsSettings((value as { tlsConfiguration?: unknown } | null)?.tlsConfiguration);
    const { devices } = readHostDevices((value as { permittedHostDevices?: unknown } | null)?.permittedHostDevices);
    assert.ok(devices.pci.every(({ selectors }) => selectors.every((each) => /^[0-9a-f]{4}:[0-9a-f]{4}$/.test(each))));
    return reading.kind === 'usable' ? 'accepted' : 'refused';
  },
});

fuzz('controller: a KubeVirt object with anything anywhere', {
  input: changedValue([kubevirt], { depths: [3, 40, 3_000] }),
  parse: (value) => {
    const [active] = [value].filter((each) => each !== null && each !== undefined) as KubeVirt[];
    const reading = controllerConfigReader(base).read(active ?? kubevirt);
    return reading.kind === 'usable' ? 'accepted' : 'refused';
  },
});

const kept = {
  version: 1,
  asOf: '2026-01-02T03:04:05Z',
  metadata: { name: 'kubevirt', namespace: 'kubevirt', uid: 'u', resourceVersion: '5', annotations: {} },
  configuration,
};

fuzz('agent: the kept configuration', {
  input: changedJson([kept]),
  parse: (text) =>
    judged(
      // It promises an Error in words; faults of the program have classes of their own.
      (error) => error instanceof SyntaxError || Object.getPrototypeOf(error) === Error.prototype,
      () => {
        const { kubevirt: read } = fromKeptText(text);
        assert.equal(whyUnsafe(read.spec, 1_000), undefined);
      },
    ),
  growing: { brackets: repeated('['), members: repeated('{"a":') },
});

const checkpointDir = mkdtempSync(path.join(tmpdir(), 'fuzz-checkpoint-'));
mkdirSync(path.join(checkpointDir, 'proc'));
const checkpoint = {
  Data: {
    PodDeviceEntries: [{ PodUID: 'a', ContainerName: 'c', ResourceName: 'r', DeviceIDs: { '-1': ['3', '4'] } }],
    RegisteredDevices: { r: ['3'] },
  },
  Checksum: 5,
};

fuzz('agent: the checkpoint of the kubelet', {
  input: changedJson([checkpoint]),
  parse: (text) => {
    writeFileSync(path.join(checkpointDir, 'kubelet_internal_checkpoint'), text);
    const options = { pluginsDir: checkpointDir, podsDir: checkpointDir, procDir: path.join(checkpointDir, 'proc') };
    return judgedLater(
      (error) => error instanceof SyntaxError || Object.getPrototypeOf(error) === Error.prototype,
      async () => {
        const groups = await groupsInUse(options, { now: () => new Date() });
        assert.ok([...groups].every((group) => typeof group === 'string'));
      },
    );
  },
});

const form =
  'before\r\n--edge\r\nContent-Disposition: form-data; name="other"\r\n\r\nx\r\n' +
  '--edge\r\nContent-Disposition: form-data; name="file"; filename="d"\r\n\r\n\r\n--edg\r\n--edge--\r\n';

fuzz('standalone: forms of uploads', {
  input: changedText([form], ['--edge', '\r\n', '"', 'name="file"', '--']),
  parse: (text) =>
    judgedLater(
      (error) => error instanceof NodeError && error.code === 'DISK_REFUSED',
      async () => {
        const bytes = Buffer.from(text, 'latin1');
        const pieces = [bytes.subarray(0, bytes.length / 2), bytes.subarray(bytes.length / 2)];
        const file = await buffer(Readable.from(pieces).compose(new FormFile('multipart/form-data; boundary=edge')));
        assert.ok(bytes.includes(file));
      },
    ),
  growing: { boundaries: repeated('\r\n--edge'), ends: repeated('\r\n--edg'), lines: repeated('\r\n', '--edge\r\n') },
});

fuzz('agent: attributes of devices', {
  input: changedText(
    ['MAJOR=189\nMINOR=1\nDEVNAME=bus/usb/001/002\nPRODUCT=46d/c52b/1211\nBUSNUM=001\n'],
    ['=', '\n', '../'],
  ),
  parse: async (text) => {
    writeFileSync(path.join(checkpointDir, 'uevent'), text);
    const event = await uevent(checkpointDir);
    return event.has('PRODUCT') ? 'accepted' : 'refused';
  },
});

const restBodies = [
  { backupName: 'a', mode: 'Push', skipQuiesce: true, targetPath: '/x' },
  { name: 'c', creationTime: 't', volumes: [{ volumeName: 'v', diskTarget: 'vda' }] },
  { unfreezeTimeout: '5m0s' },
];
const isRestError = (error: unknown) => error instanceof RestError;

fuzz('agent: bodies of REST calls', {
  input: fc.oneof(
    changedJson(restBodies),
    changedText(['unfreezeTimeout: 5m0s\n', 'name: c\nvolumes:\n- volumeName: v\n'], ['&a ', '*a', '- ', '? ', ': ']),
  ),
  known: ['{"hasOwnProperty":"a"}', '{"toString":1,"constructor":{}}'],
  parse: (text) =>
    judgedLater(isRestError, async () => {
      const body = await parseBody(Buffer.from(text));
      assert.equal(whyUnsafe(body, 32), undefined);
      const verdicts = [backupOptions, backupCheckpoint, launchSecret, unfreezeAfterSeconds].map((read) =>
        judged(isRestError, () => void read(body)),
      );
      assert.equal(verdicts.length, 4);
    }),
  growing: {
    brackets: repeated('[', '{"a":'),
    dashes: repeated('- '),
    quotes: repeated('\\"', '{"a":"'),
    blanks: repeated(' ', 'a: b', 'c'),
  },
});

fuzz('host: /proc of processes with odd names', {
  input: fc.oneof(
    hostileText(['(', ')', ') Z 1', '\n']),
    changedText(['12 (qemu) S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20']),
  ),
  parse: (text) => {
    const stat = `12 (${text}) S ${Array.from({ length: 18 }, (_, at) => at).join(' ')} 4711 20 30`;
    const figures = { cpuTicks: 21, residentPages: 30 };
    assert.deepEqual(parseProcessStat(stat), { state: 'S', parent: 0, flags: 5, startTicks: '4711', ...figures });
    assert.equal(
      isProcessAlive({ pid: 12, startTime: '4711' }, () => stat),
      true,
    );
    const seen = parseProcessStat(text);
    assert.ok(!seen || Number.isFinite(seen.cpuTicks + seen.residentPages));
    isProcessAlive({ pid: 12, startTime: '4711' }, () => text);
    const identity = parseIdentity(text);
    assert.ok(!identity || parseIdentity(formatIdentity(identity))?.pid === identity.pid);
    return seen ? 'accepted' : 'refused';
  },
});

fuzz('node: accounts, image references and words for a shell', {
  input: fc.tuple(
    changedText(['root:x:0:0:root:/root:/bin/sh\nkvm:x:107:\nqemu:x:5:5::/:/x\n']),
    changedText(['registry:5000/a/b:tag', 'fedora@sha256:abc'], ['..', '/', './', '\0']),
  ),
  parse: ([accounts, reference]) => {
    const { passwd } = accountFiles(accounts, accounts);
    assert.equal(passwd.split('\n').filter((line) => line.startsWith('qemu:')).length, 1);
    assert.match(shellQuote(accounts), /^'(?:[^']|'\\'')*'$/);
    return judged(
      (error) => error instanceof NodeError,
      () => {
        const images = new ImageStore({ dir: '/images' });
        assert.equal(path.dirname(images.directoryOf(reference)), '/images');
      },
    );
  },
});

fuzz('api: keys and names of domains', {
  input: fc.oneof(hostileText(['/', '_']), changedText(['default/vm', 'default_vm'])),
  parse: (text) => {
    const { namespace, name } = parseDomainName(text);
    assert.ok(text === name || text === `${namespace}_${name}`);
    const parsed = parseKey(text);
    assert.ok(!parsed || `${parsed.namespace}/${parsed.name}` === text);
    return parsed ? 'accepted' : 'refused';
  },
  growing: { slashes: repeated('/') },
});
