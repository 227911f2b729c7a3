import assert from 'node:assert/strict';
import fc from 'fast-check';
import { outsideText } from '../../src/agent/serve/metrics/outside-text.ts';
import { filesystemLines, migrationLines, statsLines } from '../../src/agent/serve/metrics/vm-lines.ts';
import { VmStatsCollector, vmStatsParts } from '../../src/agent/serve/metrics/vm-stats.ts';
import { RestError } from '../../src/agent/serve/rest/errors.ts';
import { queryHandlers } from '../../src/agent/serve/rest/queries.ts';
import { readGuestInfo } from '../../src/agent/vmi/guest-agent/guest-info.ts';
import type { VirtualMachineInstance } from '../../src/api/index.ts';
import { goQuote } from '../../src/base/index.ts';
import { DomainCacheError } from '../../src/domain-cache/errors.ts';
import { GhostRecords } from '../../src/domain-cache/ghost-records.ts';
import { readDomainEvent, readKubernetesEvent } from '../../src/domain-cache/notify-events.ts';
import { cmd, cmdInfo, decodeDomain, devicePlugin, notify, notifyInfo, WireError } from '../../src/wire/index.ts';
import { domainOf, uid } from '../fixtures/agent/builders.ts';
import { domainStatsJson, filesystemsJson } from '../fixtures/domain-stats.ts';
import { recordedVmStats, vmStatsMessage } from '../fixtures/vm-stats.ts';
import {
  bytesChange,
  changedJson,
  changedText,
  changedValue,
  fuzz,
  hostileText,
  judged,
  judgedLater,
  repeated,
  together,
} from './kit/index.ts';

/** What a launcher, and the guest behind it, can send to the agent. */

const key = 'default/vm1';
const isWireError = (error: unknown) => error instanceof WireError;
const isRefusedMessage = (error: unknown) => error instanceof WireError || error instanceof DomainCacheError;

const domain = {
  ...domainOf('Running', 'Unknown', {
    Migration: {
      UID: 'm',
      StartTimestamp: null,
      EndTimestamp: null,
      Failed: false,
      FailureReason: '',
      AbortStatus: '',
      Mode: '',
    },
    AccessCredential: { Succeeded: true, Message: 'm' },
  }),
  Status: {
    ...domainOf().Status,
    Interfaces: [{ Mac: '02:00:00:00:00:01', Ip: '10.1.1.1', IPs: ['10.1.1.1'], InterfaceName: 'eth0' }],
    GuestPanicInfo: { Type: 'hyper-v' },
  },
};
domain.Spec.Devices = {
  Channels: [{ Target: { Name: 'org.qemu.guest_agent.0', Type: 'virtio', Address: '', Port: 0, State: 'connected' } }],
  Disks: [
    {
      Device: 'disk',
      Type: 'file',
      Alias: { Name: 'root', UserDefined: true },
      Target: { Bus: '', Device: 'vda', Tray: '' },
      Source: { Dev: '', File: '/x' },
    },
  ],
  Interfaces: [
    { Alias: { Name: 'default', UserDefined: true }, MAC: { MAC: '02:00:00:00:00:01' }, Driver: null, LinkState: null },
  ],
  HostDevices: [{ Alias: { Name: 'h', UserDefined: true } }],
} as unknown as typeof domain.Spec.Devices;

const jsonGrowing = {
  brackets: (bytes: number) => '['.repeat(bytes),
  'quotes that are escaped': (bytes: number) => `"${'\\"'.repeat(bytes / 2)}`,
  members: (bytes: number) => `{${Array.from({ length: bytes / 10 }, (_, index) => `"a${index}":1`).join(',')}}`,
};

fuzz('launcher: domain JSON', {
  input: changedJson([domain, domainOf('Shutoff')]),
  parse: (text) =>
    judged(isWireError, () => {
      const read = decodeDomain(text);
      assert.ok(read.ObjectMeta.name !== '' && read.ObjectMeta.namespace !== '');
      // What was read is whole: read again, nothing is added.
      const written = JSON.stringify(read);
      assert.equal(JSON.stringify(decodeDomain(written, { maxBytes: 2 ** 26, maxDepth: 64 })), written);
      assert.ok(written.length < 4 * text.length + 2 ** 21, `${text.length} became ${written.length}`);
    }),
  growing: {
    ...jsonGrowing,
    'empty disks': (bytes) =>
      `{"ObjectMeta":{"name":"a","namespace":"b"},"Spec":{"Devices":{"Disks":[{}${',{}'.repeat(bytes / 3 - 40)}]}}}`,
  },
});

fuzz('launcher: domain events of a channel', {
  input: changedJson([{ ...domain, ObjectMeta: { ...domain.ObjectMeta, uid } }], { words: ['vm2', 'kube-system'] }),
  parse: (text) =>
    judged(isRefusedMessage, () => {
      const read = readDomainEvent(Buffer.from(text), { key, uid });
      assert.deepEqual([read.ObjectMeta.namespace, read.ObjectMeta.name, read.ObjectMeta.uid], ['default', 'vm1', uid]);
      assert.equal(read.Spec.Metadata.KubeVirt.UID, uid);
    }),
});

const kubernetesEvent = {
  type: 'Warning',
  reason: 'IOerror',
  message: 'no space left',
  involvedObject: { kind: 'VirtualMachineInstance', namespace: 'default', name: 'vm1', uid },
};

fuzz('launcher: Kubernetes events of a channel', {
  input: changedJson([kubernetesEvent]),
  parse: (text) =>
    judged(isRefusedMessage, () => {
      const event = readKubernetesEvent(Buffer.from(text), { key, uid });
      assert.match(event.reason, /^[A-Za-z0-9]{1,128}$/);
      assert.ok(event.message.length <= 1024);
    }),
});

interface Message {
  decode(bytes: Uint8Array): unknown;
  encode(message: never): { finish(): Uint8Array };
}

/** Every message of the generated code, with a sample. */
const messages: readonly (readonly [Message, Uint8Array])[] = [cmd, cmdInfo, notify, notifyInfo, devicePlugin].flatMap(
  (file) =>
    Object.values(file as Record<string, unknown>)
      .filter((each): each is Message & { fromPartial(value: object): never } =>
        Reflect.has(Object(each), 'fromPartial'),
      )
      .map((each) => [each, each.encode(each.fromPartial({})).finish()] as const),
);
const event = notify.DomainEventRequest.encode(
  notify.DomainEventRequest.fromPartial({
    domainJSON: Buffer.from(JSON.stringify(domain)),
    statusJSON: Buffer.from('{}'),
  } as never),
).finish();
const request = cmd.VMIRequest.encode(
  cmd.VMIRequest.fromPartial({
    vmi: { vmiJson: Buffer.from('{}') },
    options: { MemBalloonStatsPeriod: 10, PreallocatedVolumes: ['a', 'b'], interfaceDomainAttachment: { a: 'tap' } },
  }),
).finish();
const stats = cmd.VMStatsResponse.encode(vmStatsMessage(recordedVmStats())).finish();
const same = (bytes: Uint8Array) => Buffer.from(bytes);
const noise = fc.uint8Array({ maxLength: 60 });

fuzz('launcher: protobuf of every message', {
  input: fc.tuple(
    fc.nat({ max: messages.length - 1 }),
    fc.constantFrom(event, request, stats),
    bytesChange,
    noise,
    fc.boolean(),
  ),
  parse: ([which, sample, change, bytes, isNoise]) => {
    const [message] = messages[which] ?? assert.fail();
    const given = isNoise ? bytes : change(sample);
    // The library has no error class of its own.
    return judged(isProtobufRefusal, () => {
      const value = message.decode(given);
      assert.deepEqual(message.decode(message.encode(value as never).finish()), value);
    });
  },
  growing: {
    'empty fields': (bytes) =>
      together(messages.length - 1, Buffer.alloc(bytes, Buffer.from([0x0a, 0])), same, Buffer.alloc(0), false),
    groups: (bytes) => together(0, Buffer.alloc(bytes, 0x0b), same, Buffer.alloc(0), false),
  },
});

function isProtobufRefusal(error: unknown): boolean {
  const words =
    /premature EOF|invalid (?:wire|end group|UTF)|illegal tag|invalid varint|cant skip|invalid tag|maximum recursion|out of range|safe integer/i;
  return error instanceof Error && words.test(error.message);
}

fuzz('launcher: figures for the metrics', {
  input: changedJson([
    JSON.parse(domainStatsJson()),
    JSON.parse(filesystemsJson),
    { items: JSON.parse(filesystemsJson) },
  ]),
  parse: (text) =>
    judged(isNoStats, () => {
      for (const read of [statsLines, migrationLines, filesystemLines]) {
        const lines = judged(isNoStats, () => checkLines(read(text, 'node="n"')));
        assert.ok(['accepted', 'refused'].includes(lines));
      }
      checkLines(statsLines(text, 'node="n"'));
    }),
  growing: jsonGrowing,
});

/** The caller counts whatever is thrown as a launcher that answered nonsense; these two it promises. */
function isNoStats(error: unknown): boolean {
  return error instanceof SyntaxError || (error instanceof RangeError && error.message.includes('is too large'));
}

const line =
  /^[a-z_][a-z_0-9]*\{(?:[a-z_]+="(?:[^"\\\n]|\\["\\n])*",?)*\} (?:[-+]?(?:\d[\d.]*(?:e[-+]?\d+)?)|NaN|[-+]?Inf)$/;

/** Nothing that a guest is called may end a line or begin a label. */
function checkLines(lines: ReadonlyMap<string, string> | undefined): void {
  for (const [name, text] of lines ?? []) {
    for (const each of text.split('\n').slice(0, -1)) {
      assert.ok(each.startsWith(`${name}{`), each.slice(0, 200));
      assert.match(each, line);
    }
    assert.ok(text.endsWith('\n'));
  }
}

const asText = (_name: string, value: unknown) => (typeof value === 'bigint' ? String(value) : value);

fuzz('launcher: answers to GetVMStats', {
  input: changedValue([vmStatsMessage(recordedVmStats())].map((each) => JSON.parse(JSON.stringify(each, asText)))),
  parse: async (answer) => {
    const clients = { peek: () => ({ connected: true, call: async () => answer }) };
    const vmi = { metadata: { name: 'a', namespace: 'b', uid: 'u' } } as VirtualMachineInstance;
    const collector = new VmStatsCollector(clients as never);
    // A time limit of each answer would hold its memory until then.
    const { signal } = new AbortController();
    const results = await collector.collect([['b/a', vmi]], vmStatsParts, signal);
    const value = JSON.parse(results.get('b/a') ?? '') as { stats?: object };
    assert.ok(Object.keys(value).every((name) => name === 'stats' || name === 'error'));
    return value.stats ? 'accepted' : 'refused';
  },
});

const guestInfo = {
  guestAgentVersion: '8.1',
  supportedCommands: [
    { name: 'guest-ping', enabled: true },
    { name: 'guest-exec', enabled: false },
  ],
  hostname: 'h',
  os: { name: 'Fedora' },
  fsInfo: { disks: [{ diskName: 'vda' }] },
};

fuzz('launcher: what a guest agent says of itself', {
  input: changedJson([guestInfo, [{ userName: 'a' }]]),
  parse: (text) => {
    const { version, commands = [] } = readGuestInfo(text);
    assert.ok(version.length <= 64 && commands.length < 40);
    return 'accepted';
  },
  refusesNothing: true,
  growing: jsonGrowing,
});

const handlers = (text: string) => {
  const launcher = { guestInfo: async () => text, users: async () => text, sevInfo: async () => text };
  return queryHandlers({ actions: { connect: async () => launcher } } as never);
};

fuzz('launcher: answers that go on to virt-api', {
  input: fc.tuple(
    fc.constantFrom('guestosinfo', 'userlist', 'fetchcertchain'),
    changedJson([guestInfo, [{ userName: 'a' }], null]),
  ),
  parse: ([route, text]) =>
    judgedLater(
      (error) => error instanceof RestError,
      async () => {
        const call = {
          vmi: { metadata: { name: 'a', namespace: 'b', uid: 'u' } },
          signal: new AbortController().signal,
        };
        const answer = await handlers(text)[route as 'userlist'](call as never);
        assert.equal(answer.kind, 'json');
      },
    ),
});

const record = {
  name: 'vm1',
  namespace: 'default',
  socketFile: '/a/b.sock',
  uid: 'uid-1',
  pid: 7,
  startTime: '12',
  version: 1,
};

fuzz('agent: ghost records on the disk', {
  input: fc.tuple(fc.oneof(fc.constantFrom('uid-1', 'uid-2', '..', '.'), hostileText()), changedJson([record])),
  parse: async ([file, text]) => {
    const aside: string[] = [];
    const files = {
      list: async () => [file],
      read: async () => text,
      replace: async () => undefined,
      remove: async () => undefined,
      rename: async (from: string) => void aside.push(from),
    };
    const records = new GhostRecords({ directory: '/none' }, { files });
    await records.load();
    const all = records.all();
    assert.ok(all.every((each) => each.uid === file && /^[\w.-]+$/.test(file) && each.socketFile.startsWith('/')));
    return all.length > 0 ? 'accepted' : 'refused';
  },
});

fuzz('agent: words of others in labels and events', {
  input: fc.oneof(hostileText(), changedText(['eth0', 'Kernel panic: "x"\n'])),
  parse: (text) => {
    const label = outsideText(text);
    assert.ok(label.length <= 128 && Buffer.from(label).toString() === label);
    assert.doesNotMatch(label, /[^\P{Cc}\n]/u);
    assert.doesNotMatch(goQuote(text), /\p{Cc}/u);
    assert.ok(JSON.parse(goQuote(text.replace(/[^ -~]/g, ''))) === text.replace(/[^ -~]/g, ''));
    return 'accepted';
  },
  refusesNothing: true,
  growing: { quotes: repeated('"'), halves: repeated('\ud800') },
  growingTo: 2 ** 18,
});
