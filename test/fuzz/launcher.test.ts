import assert from 'node:assert/strict';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import fc from 'fast-check';
import type { VirtualMachineInstance } from '../../src/api/index.ts';
import { isRecord, silentLogger } from '../../src/base/index.ts';
import { converterOptions } from '../../src/launcher/cmd-server/service.ts';
import {
  buildDomainXml,
  ConvertError,
  claimedDevice,
  diskEntries,
  domainFromXml,
  parseDomainXml,
  shapedVmi,
} from '../../src/launcher/domain/index.ts';
import { decodeVmi, readStandaloneVmi } from '../../src/launcher/domain/vmi-json.ts';
import { parseXml, type XmlNode } from '../../src/launcher/domain/xml.ts';
import { LauncherError } from '../../src/launcher/errors.ts';
import { runAgentCommand } from '../../src/launcher/guest-agent/command.ts';
import {
  filesystemFacts,
  loadFacts,
  systemFacts,
  userFacts,
  versionFacts,
} from '../../src/launcher/guest-agent/facts.ts';
import { GuestStore, guestAgentInfo } from '../../src/launcher/guest-agent/store.ts';
import { panicMessage, readPanicInfo } from '../../src/launcher/lifecycle/panic-log.ts';
import { StateFile } from '../../src/launcher/lifecycle/state-file.ts';
import { domainStats } from '../../src/launcher/stats/domain-stats.ts';
import type { TypedParam } from '../../src/libvirt/index.ts';
import { typedParamMap } from '../../src/libvirt/typed-params.ts';
import { cmd } from '../../src/wire/index.ts';
import { launcherVmi, launcherVmiUid } from '../fixtures/launcher-vmi.ts';
import { goldenCases } from '../unit/launcher/domain/cases.ts';
import {
  changedBytes,
  changedJson,
  changedText,
  changedValue,
  fuzz,
  hostileText,
  judged,
  judgedLater,
  repeated,
} from './kit/index.ts';

/** What reaches a launcher: from the agent, from libvirt and QEMU, and from the guest. */

const isConvertError = (error: unknown) => error instanceof ConvertError;
const isLauncherError = (error: unknown) => error instanceof LauncherError;

const xmlDir = 'test/fixtures/domain-xml';
const documents = readdirSync(xmlDir).map((file) => readFileSync(path.join(xmlDir, file), 'utf8'));
const live = documents.map((text) =>
  text.replace(
    '</devices>',
    '<channel type="unix"><target type="virtio" name="org.qemu.guest_agent.0" state="connected"/></channel><interface type="user"><mac address="02:00:00:00:00:01"/><alias name="ua-default"/><link state="up"/><driver queues="2"/></interface></devices>',
  ),
);
const xmlWords = [
  '<!DOCTYPE a [<!ENTITY b "c">]>',
  '&b;',
  '&#0;',
  '&#x110000;',
  '<![CDATA[',
  ']]>',
  '<!--',
  '<disk type="',
  '</devices>',
  '<?xml',
  'constructor',
  '__proto__',
  '#text',
  ':@',
];

fuzz('launcher: domain XML of libvirt', {
  input: changedText(live, xmlWords),
  parse: (xml) =>
    judged(isConvertError, () => {
      const spec = parseDomainXml(xml);
      const state = { Status: 'Running', Reason: 'Unknown' } as const;
      const parts = { namespace: 'a', name: 'b', xml, state, metadata: { UID: 'u' } as never };
      assert.equal(domainFromXml(parts).Spec.Name, spec.Name);
      assert.ok(JSON.stringify(spec).length < 160 * xml.length + 4_096);
    }),
  growing: {
    elements: repeated('<a>', '<domain>'),
    'elements that end': repeated('<a></a>', '<domain>', '</domain>'),
    disks: repeated('<disk/>', '<domain><devices>', '</devices></domain>'),
    attributes: (bytes) => `<domain ${Array.from({ length: bytes / 10 }, (_, index) => `a${index}='b'`).join(' ')}/>`,
    brackets: repeated('<'),
    blanks: repeated(' ', '<domain', '/>'),
    'comments without end': repeated('<!--', '<domain>'),
    'character data without end': repeated('<![CDATA[', '<domain>'),
    ampersands: repeated('&', '<domain>', '</domain>'),
    entities: repeated('&amp;', '<domain>', '</domain>'),
    'entities that are declared': (bytes) =>
      `<!DOCTYPE domain [${Array.from({ length: bytes / 20 }, (_, index) => `<!ENTITY e${index} "x">`).join('')}]><domain>${'&e1;'.repeat(50)}</domain>`,
  },
  growingTo: 2 ** 18,
});

/** Only texts are replaced, by what could end an attribute, an element or a document. */
const breakers = [
  '"/><disk type="file"/>',
  "'/><x/>",
  '<x/>',
  '</domain>',
  ']]><x/>',
  '--><x/>',
  '&lt;x/&gt;',
  '&#60;x/>',
  '" y="z',
  '<?x?>',
  '\u2028<x/>',
  '＜x/＞',
  'a\n<x/>',
  '<![CDATA[<x/>]]>',
  '%3Cx/%3E',
  '"><!ENTITY a "b">',
];

interface Leaf {
  readonly holder: Record<string, unknown>;
  readonly name: string;
}

function textLeaves(value: unknown): Leaf[] {
  if (typeof value !== 'object' || value === null) return [];
  const holder = value as Record<string, unknown>;
  return Object.keys(holder).flatMap((name) =>
    typeof holder[name] === 'string' ? [{ holder, name }] : textLeaves(holder[name]),
  );
}

/** Names of elements and attributes, without any value. */
function outline({ name, attributes, children }: XmlNode): unknown {
  return [name, Object.keys(attributes).sort(), children.map(outline)];
}

function built(
  vmi: VirtualMachineInstance,
  context: (typeof goldenCases)[number]['context'],
  which: number,
  text: string,
): unknown {
  const changed = structuredClone(vmi);
  const leaves = textLeaves({ metadata: changed.metadata, spec: changed.spec });
  const leaf = leaves[which % leaves.length];
  if (leaf) leaf.holder[leaf.name] = text;
  let xml = '';
  const verdict = judged(isConvertError, () => {
    xml = buildDomainXml(changed, context);
  });
  return verdict === 'refused' ? verdict : outline(parseXml(xml, 'domain'));
}

fuzz('launcher: no text of a VMI becomes an element of its domain', {
  input: fc.tuple(
    fc.constantFrom(...goldenCases),
    fc.nat(),
    fc.oneof(fc.constantFrom(...breakers), hostileText(breakers)),
  ),
  parse: ([{ vmi, context }, which, text]) => {
    const hostile = built(vmi, context, which, text);
    if (hostile === 'refused') return 'refused';
    // Some harmless text has the same outline, or the same as without any text.
    const twins = [
      'harmless',
      '64Mi',
      '4Gi',
      '',
      '1',
      'true',
      '02:00:00:00:00:01',
      '5d307ca9-b3ef-428c-8861-06e72d69f223',
    ].map((twin) => JSON.stringify(built(vmi, context, which, twin)));
    assert.ok(twins.includes(JSON.stringify(hostile)), JSON.stringify(hostile).slice(0, 2_000));
    return 'accepted';
  },
});

/** Each golden VMI with its place in the list: it is converted in the context of that place. */
const numbered = goldenCases.map(({ vmi }, which) => ({ which, vmi }));

fuzz('launcher: VMIs of any shape that are to become a domain', {
  input: changedValue(numbered, { depths: [3, 40, 300] }),
  parse: (value) => {
    const { which, vmi } = isRecord(value) ? value : {};
    const context = goldenCases[typeof which === 'number' ? which : 0]?.context ?? goldenCases[0]?.context;
    assert.ok(context);
    return judged(isConvertError, () => {
      const shaped = shapedVmi(vmi as VirtualMachineInstance);
      assert.ok(diskEntries(shaped).length <= 2_048);
      parseXml(buildDomainXml(shaped, context), 'domain');
    });
  },
});

const identity = { namespace: 'default', name: 'small', uid: launcherVmiUid };

fuzz('launcher: VMIs that an agent sends', {
  input: changedJson([launcherVmi()]),
  parse: (text) =>
    judged(isLauncherError, () => {
      const { metadata } = decodeVmi(Buffer.from(text), identity);
      assert.deepEqual({ namespace: metadata.namespace, name: metadata.name, uid: metadata.uid }, identity);
    }),
  growing: { brackets: repeated('['), members: repeated('{"a":') },
});

fuzz('launcher: a VMI of the environment', {
  input: changedText(
    ['metadata: {name: small, namespace: default, uid: u}\nspec:\n  domain:\n    devices: {}\n'],
    ['&a ', '*a', '- ', '? ', ': ', '!!js/function'],
  ),
  parse: (text) =>
    judgedLater(isLauncherError, async () => {
      const vmi = await readStandaloneVmi(text);
      assert.ok(isRecord(vmi?.spec.domain));
    }),
});

const wire = {
  MemBalloonStatsPeriod: 10,
  PreallocatedVolumes: ['a'],
  interfaceDomainAttachment: { a: 'tap' },
  VirtualMachineSMBios: { family: 'f' },
  clusterConfig: { FreePageReportingDisabled: true },
};

fuzz('launcher: options that an agent sends', {
  input: changedBytes([cmd.VirtualMachineOptions.encode(cmd.VirtualMachineOptions.fromPartial(wire)).finish()]),
  parse: (bytes) => {
    let options: cmd.VirtualMachineOptions;
    try {
      options = cmd.VirtualMachineOptions.decode(bytes);
    } catch {
      return 'refused';
    }
    assert.ok(isRecord(converterOptions(options)));
    return 'accepted';
  },
});

const agentAnswers = [
  {
    return: [
      {
        name: 'vda1',
        mountpoint: '/',
        type: 'ext4',
        'used-bytes': 1,
        'total-bytes': 2,
        disk: [{ serial: 's', 'bus-type': 'virtio' }],
      },
    ],
  },
  { return: { version: '8.1', supported_commands: [{ name: 'guest-ping', enabled: true }] } },
  { return: { pid: 7 } },
  { return: 'thawed' },
  { error: { class: 'GenericError', desc: 'no' } },
];

fuzz('launcher: answers of a guest agent', {
  input: changedJson(agentAnswers, { depths: [3, 40, 3_000] }),
  parse: (text) =>
    judgedLater(isLauncherError, async () => {
      const hypervisor = { agentCommand: async () => text };
      const answer = await runAgentCommand(hypervisor, { name: 'd', uuid: 'u', id: 1 }, { execute: 'guest-info' });
      const store = new GuestStore();
      store.update({ ...versionFacts(answer), ...filesystemFacts(answer) });
      const info = JSON.parse(JSON.stringify(guestAgentInfo(store.facts)));
      assert.ok(info.supportedCommands.length <= 256 && info.fsInfo.disks.length <= 10);
    }),
  growing: { brackets: repeated('['), disks: repeated('{},', '{"return":[', '{}]}') },
});

const name = fc.oneof(
  fc.constantFrom(
    'if.count',
    'if.0.name',
    'if.0.addr.count',
    'if.0.addr.0.addr',
    'os.name',
    'hostname',
    'timezone.name',
    'user.count',
    'user.0.name',
    'load.1m',
    'net.count',
    'net.0.name',
    'net.0.rx.bytes',
    'block.count',
    'block.0.path',
    'vcpu.0.state',
    'vcpu.99999999999.state',
    'cpu.time',
    'dirtyrate.calc_status',
  ),
  hostileText(),
);
const value = fc.oneof(
  fc.constantFrom<TypedParam>(
    ...[-1, 0, 1, 1e9].map((number): TypedParam => ({ field: '', type: 'int', value: number })),
    ...[2n ** 64n - 1n, 5n].map((number): TypedParam => ({ field: '', type: 'ullong', value: number })),
    ...[Number.NaN, Number.POSITIVE_INFINITY, 1.5].map(
      (number): TypedParam => ({ field: '', type: 'double', value: number }),
    ),
    { field: '', type: 'boolean', value: true },
  ),
  hostileText().map((text): TypedParam => ({ field: '', type: 'string', value: text })),
);

fuzz('launcher: figures of libvirt and of the guest', {
  input: fc.array(
    fc.tuple(name, value).map(([field, param]): TypedParam => ({ ...param, field })),
    { maxLength: 40, size: 'max' },
  ),
  parse: (list) => {
    const params = typedParamMap(list);
    const system = systemFacts(params);
    const facts = { ...system, ...userFacts(params), ...loadFacts(params) };
    assert.ok((system.interfaces?.length ?? 0) <= 256 && facts.users.length <= 256);
    const sources = {
      domain: { name: 'd', uuid: 'u', id: 1 },
      params,
      memory: new Map(),
      cpuMap: undefined,
      load: facts.load,
      aliases: new Map(),
    };
    const text = JSON.stringify(domainStats(sources));
    assert.ok(text.length < 2 * 1024 * 1024);
    return 'accepted';
  },
  refusesNothing: true,
});

const dir = mkdtempSync(path.join(tmpdir(), 'fuzz-launcher-'));
mkdirSync(dir, { recursive: true });
const log = path.join(dir, 'qemu.log');

fuzz('launcher: panics in the log of QEMU', {
  input: changedText(
    ["2026-01-02 03:04:05.000+0000: panic hyper-v: arg1='0x7e', arg2='0xffffffffffffffff'\n", 'panic s390: core=0\n'],
    ['panic ', "arg1='0x", '\n'],
  ),
  parse: async (text) => {
    writeFileSync(log, text);
    const info = await readPanicInfo(log);
    assert.ok(panicMessage(info).startsWith('GuestPanicked'));
    return info.Type === 'unknown' ? 'refused' : 'accepted';
  },
  growing: {
    panics: repeated('panic '),
    letters: repeated('a', 'panic '),
    arguments: repeated("arg1='0x1'", 'panic a: '),
  },
});

fuzz('launcher: the state that it keeps', {
  input: changedJson([{ metadata: { UID: 'u' }, hasRun: true, userPaused: false }]),
  parse: (text) => {
    const file = path.join(dir, 'state.json');
    writeFileSync(file, text);
    const state = new StateFile<object>({ file }, { log: silentLogger });
    const isValid = (given: unknown): given is object => isRecord(given) && isRecord(given.metadata);
    return state.read(isValid) === undefined ? 'refused' : 'accepted';
  },
});

const metadata = (apiVersion: string, attributes: object) =>
  JSON.stringify({
    apiVersion,
    kind: 'DeviceMetadata',
    requests: [{ name: 'r', devices: [{ driver: 'd', attributes }] }],
  });
const pciBus = { 'resource.kubernetes.io/pciBusID': { string: '0000:65:00.0' } };
const mediated = { mdevUUID: { string: '5f5f7b4a-1111-4a6b-9a0c-0c5a7a0e0001' } };
const known = 'metadata.resource.k8s.io/v1alpha1';

fuzz('launcher: device metadata of a claim', {
  input: changedText(
    [
      metadata(known, pciBus),
      metadata(known, { ...pciBus, ...mediated }),
      `${metadata('metadata.resource.k8s.io/v1', {})}\n${metadata(known, mediated)}\n`,
    ],
    [known, 'pciBusID', 'mdevUUID', '0000:65:00.0', '}{', '\\"'],
  ),
  parse: (text) =>
    judged(isConvertError, () => {
      const { kind, addresses } = claimedDevice(text, { field: 'f', claimName: 'c', requestName: 'r' });
      const form =
        kind === 'pci' ? /^[\da-f]{4}:[\da-f]{2}:[\da-f]{2}\.[0-7]$/i : /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i;
      assert.match(addresses.join(), form);
    }),
  growing: {
    'versions that nobody knows': repeated(metadata('v9', {})),
    'braces that open': repeated('{'),
    'braces that close': repeated('}'),
    quotes: repeated('\\"', '{"'),
  },
});
