import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { decide } from '../../../../../src/agent/vmi/decide/index.ts';
import { readGuestInfo } from '../../../../../src/agent/vmi/guest-agent/index.ts';
import { recordOf } from '../../../../../src/agent/vmi/loop/record.ts';
import { project } from '../../../../../src/agent/vmi/status/index.ts';
import type { Domain } from '../../../../../src/api/index.ts';
import { readKubernetesEvent } from '../../../../../src/domain-cache/notify-events.ts';
import { commandFailed, mapRpcError } from '../../../../../src/launcher-client/errors.ts';
import { LauncherClientError } from '../../../../../src/launcher-client/index.ts';
import { decodeDomain } from '../../../../../src/wire/index.ts';
import { domainOf, key, observationOf, presentVmi, seen, uid, vmiOf } from '../../../../fixtures/agent/builders.ts';
import { hostileWords } from '../../../../fixtures/hostile-words.ts';

/** Nothing of it may reach a terminal, a page or an object: what moves cursors, turns writing, or cannot be seen or encoded. */
const unwanted = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\p{Bidi_Control}]/u;

function texts(value: unknown): string[] {
  if (typeof value === 'string') return [value];
  if (typeof value !== 'object' || value === null) return [];
  return Object.values(value).flatMap(texts);
}

function assertPlain(value: unknown): void {
  const found = texts(value).filter((text) => unwanted.test(text));
  assert.deepEqual(
    found.map((text) => JSON.stringify(text.slice(0, 80))),
    [],
  );
}

/** A guest, or its launcher, that says `word` wherever it has a say, in the wire's form. */
function wireDomain(word: string): string {
  const domain = structuredClone(domainOf('Running')) as Domain;
  const mac = '02:00:00:00:00:01';
  Object.assign(domain.Status, {
    Reason: word,
    Interfaces: [
      {
        Mac: mac,
        Ip: word,
        IPs: [word, '10.0.0.1', 'fe80::1%eth0', `10.0.0.2${word}`, `fe80::2%${word}`],
        InterfaceName: word,
      },
      { Mac: word, Ip: word, IPs: null, InterfaceName: `x${word}` },
    ],
    OSInfo: Object.fromEntries(
      ['Name', 'KernelRelease', 'Version', 'PrettyName', 'VersionId', 'KernelVersion', 'Machine', 'Id'].map((name) => [
        name,
        word,
      ]),
    ),
    FSFreezeStatus: { Status: word },
    GuestPanicInfo: { Type: word },
  });
  domain.Spec.OS.Type.Machine = word;
  domain.Spec.Devices.Interfaces = [
    { Alias: { Name: 'default', UserDefined: true }, MAC: { MAC: mac }, Driver: null, LinkState: { State: word } },
    { Alias: { Name: word, UserDefined: true }, MAC: { MAC: word }, Driver: null, LinkState: { State: word } },
  ];
  domain.Spec.Metadata.KubeVirt.AccessCredential = { Succeeded: false, Message: word };
  return JSON.stringify(domain);
}

suite('what a guest or a launcher says has nothing in it that a reader does not see', () => {
  for (const [at, word] of hostileWords.entries()) {
    test(`word ${at} as a guest's, in status, events and the story of decisions`, () => {
      for (const wire of [wireDomain(word), Buffer.from(wireDomain(word))]) {
        const domain = decodeDomain(wire);
        assertPlain(domain);
        const observation = observationOf({ vmi: presentVmi(vmiOf('Running')), domain: seen(domain) });
        const decision = decide(observation);
        const written = project(vmiOf('Running'), { observation, decision, outcomes: [] });
        assert.ok(written.vmi);
        assertPlain([written.vmi.status, written.events, written.problem]);
        assertPlain(recordOf({ observation, decision, outcomes: [] }));
        const addresses = (written.vmi.status?.interfaces ?? []).flatMap(({ ipAddresses }) => ipAddresses ?? []);
        assert.deepEqual(addresses, ['10.0.0.1', 'fe80::1%eth0']);
        for (const { mac = '' } of written.vmi.status?.interfaces ?? []) assert.match(mac, /^$|^[0-9a-f:]{17}$/);
      }
    });

    test(`word ${at} as a guest agent's version, a launcher's event, and a launcher's errors`, () => {
      assertPlain(readGuestInfo(JSON.stringify({ guestAgentVersion: word, supportedCommands: null })));
      const involvedObject = { namespace: 'default', name: 'vm1', uid };
      const event = { involvedObject, type: 'Warning', reason: 'Because', message: word };
      assertPlain(readKubernetesEvent(Buffer.from(JSON.stringify(event)), { key, uid }));
      const failed = commandFailed('SyncVMI', word);
      assertPlain([failed.message, failed.launcherMessage]);
      const refused = { name: '', message: '', code: 2, details: word } as Parameters<typeof mapRpcError>[1];
      assertPlain(mapRpcError('SyncVMI', refused, false).message);
      assertPlain(new LauncherClientError('BAD_ANSWER', word).message);
      assert.throws(
        () => decodeDomain(`{"${word}`),
        (error: Error) => !unwanted.test(error.message),
      );
    });
  }

  test('what is fine stays as it is, letter for letter', () => {
    const words = [
      '',
      'Debian GNU/Linux 12 (bookworm)',
      'grün 日本語 😀 👩‍💻',
      'می‌خواهم',
      '<a>&"quoted"\\',
      'C:\\Users',
    ];
    for (const word of words) {
      const domain = decodeDomain(wireDomain(word));
      assert.equal(domain.Status.OSInfo?.PrettyName, word);
      assert.equal(domain.Spec.OS.Type.Machine, word);
    }
  });

  test('lines become one', () => {
    const domain = decodeDomain(wireDomain('one\r\ntwo\tthree'));
    assert.equal(domain.Spec.Metadata.KubeVirt.AccessCredential?.Message, 'one two three');
  });
});
