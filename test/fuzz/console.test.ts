import assert from 'node:assert/strict';
import type { IncomingMessage } from 'node:http';
import fc from 'fast-check';
import { parseExplainRequest } from '../../src/agent/serve/explain/routes.ts';
import { wantedParts } from '../../src/agent/serve/metrics/vm-stats.ts';
import { RestError } from '../../src/agent/serve/rest/errors.ts';
import { parseGoBool, streamWish } from '../../src/agent/serve/rest/streams.ts';
import { systemClock } from '../../src/base/index.ts';
import { chooseProtocol, upgradeProblem } from '../../src/console/handshake.ts';
import { parseCommand } from '../../src/console/notices.ts';
import { occurrences } from '../../src/console/occurrences.ts';
import { meetingOffset } from '../../src/console/past.ts';
import { RfbClientStream } from '../../src/console/rfb-client-stream.ts';
import { Scrollback } from '../../src/console/scrollback.ts';
import { PageAccess } from '../../src/web/access.ts';
import { parseNotice } from '../../src/web/console-notice.ts';
import { isVmApiRequest, isVmApiStream, withoutSecrets } from '../../src/web/vm-api-routes.ts';
import {
  bytesChange,
  changedJson,
  changedText,
  cuts,
  fuzz,
  inPieces,
  judged,
  repeated,
  together,
} from './kit/index.ts';

/** What a browser, a VNC client or a page of another site sends. */

const u16 = (value: number) => [value >> 8, value & 255];
const u32 = (value: number) => [...u16(value >>> 16), ...u16(value & 65_535)];
const bytes = (...values: number[]) => Buffer.from(values);
const text = (length: number) =>
  Buffer.concat([bytes(6, 0, 0, 0, ...u32(length)), Buffer.alloc(Math.abs(length | 0), 9)]);
const handshake = Buffer.from('RFB 003.008\n\x01\x00', 'latin1');
const rfbMessages = [
  bytes(0, ...Array<number>(19).fill(7)),
  bytes(2, 0, 0, 2, ...u32(0), ...u32(-316)),
  bytes(3, 1, 0, 0, 0, 0, 2, 128, 1, 224),
  bytes(4, 1, 0, 0, ...u32(97)),
  bytes(4, 0, 0, 0, ...u32(97)),
  bytes(5, 1, 0, 10, 0, 20),
  bytes(5, 0x81, 0, 1, 0, 2, 1),
  text(5),
  text(-7 >>> 0),
  bytes(248, 0, 0, 0, 0, 0, 0, 1, 2, 5, 5),
  bytes(250, 0, 1, 2),
  bytes(251, 0, 4, 0, 3, 0, 1, 0, ...Array<number>(16).fill(3)),
  bytes(253, 0x82, 0, 3, 1, 2, 3),
  bytes(255, 0, 0, 1, ...u32(65), ...u32(30)),
  bytes(255, 1, 0, 2, 3, 2, 0, 0, 172, 68),
];
const conversation = fc
  .tuple(
    fc.constantFrom(handshake, Buffer.from('RFB 003.003\n\x01', 'latin1')),
    fc.array(fc.constantFrom(...rfbMessages), { maxLength: 12 }),
    bytesChange,
  )
  .map(([start, list, change]) => Buffer.concat([start, change(Buffer.concat(list))]));

interface Passed {
  readonly toGuest: string;
  readonly problem: string | undefined;
}

function passedBy(isViewer: boolean, pieces: readonly Buffer[]): Passed {
  const stream = new RfbClientStream({ isViewer, staysWriter: false });
  const toGuest = Buffer.concat(pieces.flatMap((piece) => stream.push(piece)));
  return { toGuest: toGuest.toString('hex'), problem: stream.problem };
}

fuzz('console: RFB of a client, wherever its bytes are cut', {
  input: fc.tuple(conversation, cuts, fc.boolean()),
  // A megabyte of messages of four bytes, read three times: a second of a processor that does nothing else.
  hangMs: 6_000,
  parse: ([all, places, isViewer]) => {
    const whole = passedBy(isViewer, [all]);
    const pieces = inPieces(all, places);
    assert.deepEqual(passedBy(isViewer, pieces), whole);
    // A writer's bytes reach the guest as they are, but for the flag that shares the screen, whatever is pending.
    assert.ok(whole.toGuest.length <= 2 * all.length);
    const changed = new RfbClientStream({ isViewer: false, staysWriter: false });
    const before = Buffer.concat(pieces.flatMap((piece) => changed.push(piece)));
    const letGo = Buffer.concat(changed.becomeViewer());
    assert.ok(before.length + letGo.length <= all.length + 65 * 12);
    return whole.problem === undefined ? 'accepted' : 'refused';
  },
  growing: {
    keys: (size) => together(Buffer.concat([handshake, Buffer.alloc(size, rfbMessages[3])]), [], true),
    'clipboards of nothing': (size) => together(Buffer.concat([handshake, Buffer.alloc(size, text(0))]), [], true),
    'encodings of nothing': (size) =>
      together(Buffer.concat([handshake, Buffer.alloc(size, bytes(2, 0, 0, 0))]), [], true),
  },
});

fuzz('console: what is remembered of a guest', {
  input: fc.tuple(
    fc.array(fc.uint8Array({ maxLength: 400 }), { maxLength: 40, size: 'max' }),
    fc.integer({ min: 1, max: 6_000 }),
    fc.nat(),
  ),
  parse: ([chunks, limit, from]) => {
    const line = new Scrollback(limit);
    for (const chunk of chunks) line.append(Buffer.from(chunk));
    const all = Buffer.concat(chunks);
    assert.deepEqual([line.end, line.start], [all.length, Math.max(0, all.length - limit)]);
    const at = line.start + (from % (line.end - line.start + 1));
    assert.deepEqual(line.read(at, 1e9), all.subarray(at));
    return 'accepted';
  },
  refusesNothing: true,
});

/** As a guest writes that means harm: of few different bytes, so that each place looks nearly like the next. */
const alike = (maxLength: number) =>
  fc.array(fc.constantFrom(97, 97, 97, 98), { minLength: 1, maxLength }).map((all) => Buffer.from(all));
/** A log of one byte, and half as much that was heard, the same but for one byte, if any. */
const nearlyAlike = (size: number, otherAt?: number) => {
  const heard = Buffer.alloc(size / 3, 'a');
  if (otherAt !== undefined) heard.write('b', Math.floor(heard.length * otherAt));
  return together(Buffer.alloc(size - heard.length, 'a'), heard, 0, 0);
};

fuzz('console: where a log meets what was heard', {
  input: fc.tuple(alike(60), alike(12), fc.nat(), fc.nat(80)),
  parse: ([log, heard, some, floor]) => {
    const places = occurrences(heard, log, floor);
    const logged = 1 + (some % heard.length);
    const meeting = meetingOffset({ line: 'a', end: log.length, bytes: log }, { bytes: heard, logged }, floor);
    for (const at of [places.at(0), places.at(-1), meeting?.offset].filter((found) => found !== undefined)) {
      // A meeting is judged by so many bytes.
      const known = log.subarray(at, at + Math.min(heard.length, 4_096));
      assert.ok(known.equals(heard.subarray(0, known.length)));
    }
    return meeting ? 'accepted' : 'refused';
  },
  growing: {
    'the same at each place': (size) => nearlyAlike(size),
    'a byte that differs': (size) => nearlyAlike(size, 0.5),
    'a late byte that differs': (size) => nearlyAlike(size, 0.9),
  },
});

fuzz('console: commands and notices', {
  input: changedJson([
    { kind: 'take' },
    { kind: 'attached', role: 'viewer', line: 'a', offset: 5, replayed: 3, lost: 0 },
    { kind: 'viewers', count: 2 },
  ]),
  parse: (message) => {
    const notice = parseNotice(message);
    const command = parseCommand(Buffer.from(message));
    return notice || typeof command === 'object' ? 'accepted' : 'refused';
  },
  growing: { brackets: repeated('[') },
});

/** A request with a header of each kind that is looked at. */
function requestOf(headers: Readonly<Record<string, string>>, url: string, method = 'GET'): IncomingMessage {
  const rawHeaders = Object.entries(headers).flat();
  return { method, url, headers, rawHeaders } as unknown as IncomingMessage;
}

const header = (...samples: string[]) =>
  changedText(samples, [',', ';', '=', 'websocket', 'localhost', '127.0.0.1', '127.0.0.1:1@evil', 'null']);
const upgradeHeaders = fc.record({
  upgrade: header('websocket', 'WebSocket'),
  'sec-websocket-version': fc.oneof(fc.constant('13'), header('13')),
  'sec-websocket-key': header('dGhlIHNhbXBsZSBub25jZQ=='),
  'sec-websocket-protocol': header('plain.kubevirt.io', 'session.virt-handler.io, plain.kubevirt.io'),
});

fuzz('console: requests to upgrade', {
  input: upgradeHeaders,
  parse: (headers) => {
    const problem = upgradeProblem(requestOf(headers, '/'));
    const names = new Set(headers['sec-websocket-protocol'].split(',').map((name) => name.trim()));
    assert.ok([false, 'plain.kubevirt.io', 'session.virt-handler.io'].includes(chooseProtocol(names)));
    assert.ok(problem === undefined || (problem.httpStatus >= 400 && problem.message.length < 200));
    return problem === undefined ? 'accepted' : 'refused';
  },
  growing: {
    protocols: (size) => ({
      ...goodUpgrade,
      'sec-websocket-protocol': Array.from({ length: size / 8 }, (_, index) => `p${index}`).join(', '),
    }),
    blanks: (size) => ({ ...goodUpgrade, 'sec-websocket-protocol': `a${' '.repeat(size)}b` }),
  },
});

const goodUpgrade = {
  upgrade: 'websocket',
  'sec-websocket-version': '13',
  'sec-websocket-key': 'dGhlIHNhbXBsZSBub25jZQ==',
  'sec-websocket-protocol': '',
};
const access = new PageAccess(systemClock);
const { key } = access.newSession('act');

fuzz('web: who is let in', {
  input: fc.record(
    {
      host: header('localhost:8080', '127.0.0.1:8080', '127.0.0.1', `${access.hostName}:8080`),
      origin: fc.option(header('http://localhost:8080', 'http://127.0.0.1:8080'), { nil: undefined }),
      cookie: fc.option(header(`virt-web-8080=${key}`), { nil: undefined }),
      authorization: fc.option(
        fc.oneof(header(`Bearer ${access.token}`), fc.constantFrom(`Bearer ${access.token}`, `Bearer ${key}`)),
        { nil: undefined },
      ),
      'sec-fetch-site': fc.option(header('same-origin', 'cross-site', 'none'), { nil: undefined }),
      url: header('/', '/api/vms', `/?token=${access.token}`),
    },
    { noNullPrototype: true },
  ),
  parse: ({ url, ...headers }) => {
    const request = requestOf(headers as Record<string, string>, url);
    const { kind } = access.authorize(request);
    const given = /^bearer +(\S+)$/i.exec(headers.authorization ?? '')?.[1] ?? '';
    const host = headers.host.replace(/:\d{1,5}$/, '').toLowerCase();
    // Nobody comes in without a secret, with another host's name, or from another site's page.
    assert.ok(kind === 'refused' || [access.token, key].includes(given));
    assert.ok(kind === 'refused' || ['localhost', '127.0.0.1', access.hostName].includes(host));
    assert.ok(
      kind === 'refused' || headers.origin === undefined || headers.origin === `http://${headers.host.toLowerCase()}`,
    );
    isVmApiRequest(request);
    isVmApiStream(request);
    assert.ok(
      !/cookie|authorization/i.test(
        withoutSecrets(request)
          .rawHeaders.filter((_, at) => at % 2 === 0)
          .join(),
      ),
    );
    return kind === 'refused' ? 'refused' : 'accepted';
  },
  acceptedPercent: 0.2,
  growing: {
    cookies: (size) => ({ ...plainRequest, cookie: 'a=b; '.repeat(size / 5) }),
    'blanks of a bearer': (size) => ({ ...plainRequest, authorization: `bearer${' '.repeat(size)}` }),
  },
});

const plainRequest = {
  host: 'localhost:8080',
  origin: undefined,
  cookie: undefined,
  authorization: undefined,
  'sec-fetch-site': undefined,
  url: '/',
};

const queries = [
  'access=take&preserveSession=true',
  'line=abc.1&from=500',
  'access=view',
  'domainStats=true&dirtyRate=true',
];
const targets = [
  '/why/v1/vmis/default/vm1?limit=5',
  '/why/v1/node',
  '/v1/namespaces/default/virtualmachineinstances/vm1/console',
  '/metrics',
];

fuzz('agent: paths and queries', {
  input: fc.tuple(
    fc.constantFrom('console', 'vnc', 'usbredir'),
    changedText(queries, ['%', '&&', '=true', '1e9']),
    changedText(targets, ['%2f', '%', '//', '?', 'é']),
  ),
  parse: ([kind, query, target]) => {
    const parameters = new URLSearchParams(query);
    assert.ok(wantedParts(parameters).length < 32);
    assert.ok([true, false, undefined].includes(parseGoBool(query)));
    assert.ok(typeof parseExplainRequest('GET', target) === 'object');
    return judged(
      (error) => error instanceof RestError,
      () => {
        const { resume } = streamWish(kind as 'vnc', parameters);
        assert.ok(resume === undefined || Number.isSafeInteger(resume.from));
      },
    );
  },
  growing: {
    parameters: (size) => together('vnc' as const, '&a=b'.repeat(size / 4), '/'),
    parts: (size) => together('vnc' as const, '', '/a'.repeat(size / 2)),
  },
});
