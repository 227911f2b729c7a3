import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { describe, it } from 'node:test';
import { loadSync, type MessageTypeDefinition, type ServiceDefinition } from '@grpc/proto-loader';
import fc from 'fast-check';
import { cmd, cmdInfo, notify, notifyInfo } from '../../../src/wire/index.ts';
import { fieldTable, rpcTable } from './field-table.ts';

/** The .proto files as an independent implementation reads them. */
const loaded = loadSync(['proto/cmd.proto', 'proto/cmd-info.proto', 'proto/notify.proto', 'proto/notify-info.proto'], {
  keepCase: true,
  longs: String,
  defaults: true,
  arrays: true,
  objects: true,
});

interface Field {
  name: string;
  number: number;
  type: string;
  typeName: string;
  label: string;
}
interface Descriptor {
  name: string;
  field: Field[];
  nestedType: Descriptor[];
}

const messages = Object.entries(loaded).filter(
  (entry): entry is [string, MessageTypeDefinition<object, object>] =>
    'fileDescriptorProtos' in entry[1] && 'type' in entry[1],
);
const services = Object.entries(loaded).filter(
  (entry): entry is [string, ServiceDefinition] => !('fileDescriptorProtos' in entry[1]),
);

const scalars: Readonly<Record<string, string>> = {
  TYPE_STRING: 'string',
  TYPE_BYTES: 'bytes',
  TYPE_BOOL: 'bool',
  TYPE_INT32: 'int32',
  TYPE_INT64: 'int64',
  TYPE_UINT32: 'uint32',
  TYPE_UINT64: 'uint64',
};

function describeField(field: Field, { nestedType }: Descriptor): string {
  const map = nestedType.find(({ name }) => name === field.typeName);
  if (map) return `${field.number} ${field.name} map<${map.field.map((each) => typeOf(each)).join(',')}>`;
  return `${field.number} ${field.name} ${field.label === 'LABEL_REPEATED' ? 'repeated ' : ''}${typeOf(field)}`;
}

function typeOf(field: Field): string {
  return scalars[field.type] ?? field.typeName.split('.').at(-1) ?? '?';
}

describe('the .proto files', () => {
  it('declare every message and field of the table, and no other', () => {
    const found = Object.fromEntries(
      messages.map(([name, { type }]) => {
        const descriptor = type as unknown as Descriptor;
        return [
          name,
          descriptor.field
            .map((field) => describeField(field, descriptor))
            .sort((a, b) => Number.parseInt(a, 10) - Number.parseInt(b, 10)),
        ];
      }),
    );
    assert.deepEqual(found, fieldTable);
  });

  it('declare every rpc of the table, unary, and no other', () => {
    const found = Object.fromEntries(
      services.map(([name, methods]) => [
        name,
        Object.values(methods).map(({ path, requestType, responseType, requestStream, responseStream }) => {
          assert.equal(requestStream || responseStream, false);
          return `${path} ${nameOf(requestType)} ${nameOf(responseType)}`;
        }),
      ]),
    );
    assert.deepEqual(found, rpcTable);
    assert.equal(found['kubevirt.cmd.v1.Cmd']?.length, 36);
  });
});

function nameOf(type: object): string {
  return 'type' in type ? (type.type as Descriptor).name : '?';
}

describe('the generated code', () => {
  const generated: Readonly<Record<string, { path: string }>>[] = [
    cmd.CmdService,
    cmdInfo.CmdInfoService,
    notify.NotifyService,
    notifyInfo.NotifyInfoService,
  ];

  it('has the method paths of the .proto files', () => {
    const paths = generated.flatMap((service) => Object.values(service).map(({ path }) => path));
    const wanted = services.flatMap(([, methods]) => Object.values(methods).map(({ path }) => path));
    assert.deepEqual(paths.sort(), wanted.sort());
  });

  it('is what scripts/generate.mjs makes of them', () => {
    const { status, stderr } = spawnSync(process.execPath, ['scripts/generate.mjs', '--check'], { encoding: 'utf8' });
    assert.equal(status, 0, stderr);
  });
});

interface Codec {
  encode(message: never): { finish(): Uint8Array };
  decode(input: Uint8Array): object;
  fromPartial(partial: never): object;
}
const namespaces: Readonly<Record<string, object>> = {
  'kubevirt.cmd.v1': cmd,
  'kubevirt.cmd.info': cmdInfo,
  'kubevirt.notify.v1': notify,
  'kubevirt.notify.info': notifyInfo,
};

/** Values of a message as ts-proto types them, to a small depth. */
function valuesOf(name: string, depth: number): fc.Arbitrary<object> {
  const type = messages.find(([each]) => each === name)?.[1].type as unknown as Descriptor;
  const prefix = name.slice(0, name.lastIndexOf('.') + 1);
  const fields = type.field.map((field) => {
    const map = type.nestedType.find((nested) => nested.name === field.typeName);
    if (map) {
      const [, value] = map.field;
      if (!value) throw new Error('a map without value');
      return [
        field.name,
        fc.dictionary(fc.stringMatching(/^[a-z]{1,5}$/), scalarOf(value, prefix, depth), { noNullPrototype: true }),
      ] as const;
    }
    const one = scalarOf(field, prefix, depth);
    return [field.name, field.label === 'LABEL_REPEATED' ? fc.array(one, { maxLength: 3 }) : one] as const;
  });
  return fc.record(Object.fromEntries(fields));
}

function scalarOf(field: Field, prefix: string, depth: number): fc.Arbitrary<unknown> {
  const scalar: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
    string: fc.string({ unit: 'grapheme', maxLength: 8 }),
    bytes: fc.uint8Array({ maxLength: 8 }).map((bytes) => Buffer.from(bytes)),
    bool: fc.boolean(),
    int32: fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 }),
    int64: fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
    uint32: fc.integer({ min: 0, max: 2 ** 32 - 1 }),
    uint64: fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  };
  const known = scalar[typeOf(field)];
  if (known) return known;
  return depth > 0 ? valuesOf(prefix + typeOf(field), depth - 1) : fc.constant(undefined);
}

describe('round trips between ts-proto and proto-loader', () => {
  for (const [name, definition] of messages) {
    it(name, () => {
      const [space, short] = [name.slice(0, name.lastIndexOf('.')), name.slice(name.lastIndexOf('.') + 1)];
      const codec = (namespaces[space] as Record<string, Codec>)[short];
      assert.ok(codec, `${name} is not generated`);
      fc.assert(
        fc.property(valuesOf(name, 6), (value) => {
          const message = codec.fromPartial(value as never);
          const ours = Buffer.from(codec.encode(message as never).finish());
          const theirs = definition.serialize(definition.deserialize(ours));
          assert.deepEqual(codec.decode(theirs), message);
        }),
        { numRuns: 30 },
      );
    });
  }
});
