import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import fc from 'fast-check';
import { ApiError } from '../../../src/apiserver/errors.ts';
import { at } from '../../../src/apiserver/object.ts';
import { parseLabelSelector } from '../../../src/apiserver/objects/selectors.ts';
import { parseBody } from '../../../src/apiserver/rest/body.ts';
import { negotiate } from '../../../src/apiserver/rest/negotiate.ts';
import { decodeProtobuf } from '../../../src/apiserver/rest/protobuf/decode.ts';
import { parsePath, parseQuery } from '../../../src/apiserver/rest/request.ts';

/** Runs `work`; anything thrown but a refusal fails the test. */
function onlyRefusals(work: () => unknown): void {
  try {
    work();
  } catch (error) {
    assert.ok(error instanceof ApiError, String(error));
    assert.ok(error.httpStatus < 500);
  }
}

describe('paths', () => {
  const show = (group: string, version: string, path: string) => {
    const { type, namespace, name, subresource } = parsePath(group, version, path.split('/'));
    return [type.kind, namespace, name, subresource];
  };

  test('collections, objects and sub-resources, in a namespace and without one', () => {
    assert.deepEqual(show('', 'v1', 'pods'), ['Pod', undefined, undefined, undefined]);
    assert.deepEqual(show('', 'v1', 'namespaces/a/pods'), ['Pod', 'a', undefined, undefined]);
    assert.deepEqual(show('', 'v1', 'namespaces/a/pods/b'), ['Pod', 'a', 'b', undefined]);
    assert.deepEqual(show('', 'v1', 'namespaces/a/pods/b/log'), ['Pod', 'a', 'b', 'log']);
    assert.deepEqual(show('', 'v1', 'nodes/b/status'), ['Node', undefined, 'b', 'status']);
    assert.deepEqual(show('', 'v1', 'namespaces'), ['Namespace', undefined, undefined, undefined]);
    assert.deepEqual(show('', 'v1', 'namespaces/a'), ['Namespace', undefined, 'a', undefined]);
    assert.deepEqual(show('', 'v1', 'namespaces/a/status'), ['Namespace', undefined, 'a', 'status']);
  });

  for (const path of [
    'pods/a',
    'namespaces/a/nodes',
    'namespaces/a/pods/b/log/more',
    'things',
    '',
    'namespaces/a/things',
  ]) {
    test(`"${path}" is nothing here`, () => assert.throws(() => show('', 'v1', path), { code: 'NOT_FOUND' }));
  }

  test('of a parameter given twice the first counts; none reaches the prototype', () => {
    assert.deepEqual(parseQuery('/x?a=1&a=2&b=%3D&__proto__=y'), { a: '1', b: '=' });
  });
});

describe('Accept', () => {
  const table: [string | undefined, string][] = [
    [undefined, 'plain'],
    ['*/*', 'plain'],
    ['application/vnd.kubernetes.protobuf, application/json', 'plain'],
    ['application/json;as=Table;v=v1;g=meta.k8s.io,application/json', 'table'],
    ['application/json;as=Table;v=v9;g=meta.k8s.io, application/json', 'plain'],
    ['application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1', 'partial'],
    ['application/yaml', 'plain'],
  ];
  for (const [accept, kind] of table) {
    test(`${accept} is answered with ${kind}`, () => assert.equal(negotiate(accept).kind, kind));
  }

  test('protobuf alone cannot be met', () => {
    assert.throws(() => negotiate('application/vnd.kubernetes.protobuf'), { code: 'NOT_ACCEPTABLE' });
  });
});

describe('protobuf', () => {
  const field = (number: number, content: Buffer | string) => {
    const bytes = Buffer.from(content);
    return Buffer.concat([Buffer.from([(number << 3) | 2, bytes.length]), bytes]);
  };
  const envelope = (apiVersion: string, kind: string, raw: Buffer) =>
    Buffer.concat([
      Buffer.from('k8s\0'),
      field(1, Buffer.concat([field(1, apiVersion), field(2, kind)])),
      field(2, raw),
    ]);
  const metadata = field(1, field(1, 'x'));

  test('a config map, byte by byte', () => {
    const entry = Buffer.concat([field(1, 'key'), field(2, 'value')]);
    assert.deepEqual(decodeProtobuf(envelope('v1', 'ConfigMap', Buffer.concat([metadata, field(2, entry)]))), {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'x' },
      data: { key: 'value' },
    });
  });

  test('a secret keeps its bytes as base64', () => {
    const entry = Buffer.concat([field(1, 'k'), field(2, Buffer.from([0, 255]))]);
    const { data } = decodeProtobuf(envelope('v1', 'Secret', field(2, entry)));
    assert.deepEqual(data, { k: 'AP8=' });
  });

  test('a field or a kind that is not known is refused, not dropped', () => {
    assert.throws(() => decodeProtobuf(envelope('v1', 'ConfigMap', field(9, 'x'))), { code: 'UNSUPPORTED_MEDIA_TYPE' });
    assert.throws(() => decodeProtobuf(envelope('v1', 'Pod', metadata)), { code: 'UNSUPPORTED_MEDIA_TYPE' });
  });

  const service = (port: readonly number[]) =>
    decodeProtobuf(envelope('v1', 'Service', field(2, field(1, Buffer.from([3 << 3, ...port])))));

  test('a number is signed and has ten bytes at the most; what lies above 2^53 is rounded as in JSON', () => {
    const port = (bytes: readonly number[]) => at(service(bytes), 'spec', 'ports', 0, 'port');
    assert.equal(port([80]), 80);
    assert.equal(port([0x90, 0x3f]), 8080);
    assert.equal(port([...Array(9).fill(0xff), 1]), -1);
    assert.equal(port([...Array(8).fill(0xff), 0x7f]), 2 ** 63);
    assert.throws(() => service([...Array(10).fill(0xff), 1]), { code: 'BAD_REQUEST' });
  });

  test('a length that would wrap around is refused: 2^32 + 1, and 1 in five bytes', () => {
    for (const length of [
      [0x81, 0x80, 0x80, 0x80, 0x10],
      [0x81, 0x80, 0x80, 0x80, 0x00],
    ]) {
      const raw = Buffer.from([(3 << 3) | 2, ...length, 0x61]);
      assert.throws(() => decodeProtobuf(envelope('v1', 'Secret', raw)), { code: 'BAD_REQUEST' });
    }
  });

  test('a wire type that Kubernetes does not use is refused: fixed numbers and groups', () => {
    for (const wireType of [1, 3, 4, 5, 6, 7]) {
      const raw = Buffer.from([(3 << 3) | wireType, 0, 0, 0, 0, 0, 0, 0, 0]);
      assert.throws(() => decodeProtobuf(envelope('v1', 'Secret', raw)), { code: 'BAD_REQUEST' });
    }
  });

  test('garbage and cut messages are refused, nothing else', () => {
    const good = envelope(
      'v1',
      'Event',
      Buffer.concat([metadata, field(6, Buffer.from([8, 1])), field(11, Buffer.from([8, 1]))]),
    );
    for (let length = 0; length < good.length; length++) onlyRefusals(() => decodeProtobuf(good.subarray(0, length)));
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.constantFrom('Event', 'Service', 'Secret'), (bytes, kind) => {
        onlyRefusals(() => decodeProtobuf(envelope('v1', kind, Buffer.from(bytes))));
      }),
    );
  });
});

describe('any text', () => {
  test('as a body gives a value or a refusal', () => {
    const types = fc.constantFrom('application/json', 'application/yaml', 'text/x', undefined);
    fc.assert(
      fc.property(fc.string({ maxLength: 300 }), types, (body, type) =>
        onlyRefusals(() => parseBody(Buffer.from(body), type)),
      ),
      { numRuns: 1000 },
    );
  });

  for (const unit of ['- ', '[', '? ', '{a: ']) {
    test(`a megabyte of YAML that nests by ${JSON.stringify(unit)} is refused and does not end the process`, () => {
      const body = Buffer.from(unit.repeat(1024 * 1024));
      assert.throws(() => parseBody(body, 'application/yaml'), { code: 'BAD_REQUEST', message: /nested deeper/ });
    });
  }

  test('as a label selector gives a selector or a refusal', () => {
    const words = fc.array(
      fc.constantFrom('a', 'b/c', '=', '!=', '!', ' in ', ' notin ', '(', ')', ',', '<', '3', ' '),
    );
    fc.assert(
      fc.property(words, (parts) => onlyRefusals(() => parseLabelSelector(parts.join(''))({ a: '1' }))),
      { numRuns: 2000 },
    );
  });
});
