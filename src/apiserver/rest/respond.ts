import type { Response } from 'express';
import { stringify } from 'yaml';
import { apiVersionOf } from '../../api/index.ts';
import type { ApiType } from '../api-type.ts';
import type { ApiObject } from '../object.ts';
import type { ListResult } from '../objects/index.ts';
import { type IncludeObject, partialMetadata, toTable } from '../print/index.ts';
import type { Representation } from './negotiate.ts';
import { jsonWithList, sendPieces } from './send-pieces.ts';

export interface View {
  readonly type: ApiType;
  readonly representation: Representation;
  readonly include: IncludeObject;
  readonly now: Date;
}

export function sendValue(response: Response, status: number, value: unknown): void {
  sendJson(response, status, JSON.stringify(value));
}

export function sendJson(response: Response, status: number, json: string, contentType = 'application/json'): void {
  response.status(status).set('Content-Type', contentType).set('Cache-Control', 'no-cache, private');
  response.end(json);
}

/** One object in the form the client asked for. */
export function sendObject(response: Response, status: number, object: ApiObject, view: View): void {
  const { representation } = view;
  switch (representation.kind) {
    case 'plain':
      if (representation.encoding === 'json') sendValue(response, status, object);
      else sendYaml(response, status, JSON.stringify(object));
      return;
    case 'table':
      sendValue(response, status, tableOf([object], view, { resourceVersion: object.metadata.resourceVersion }));
      return;
    case 'partial':
      sendValue(response, status, partialMetadata(object));
  }
}

/** Making YAML takes a second for each megabyte, in which no other client is served; JSON is YAML, too. */
const maxYamlLength = 256 * 1024;

function sendYaml(response: Response, status: number, json: string): void {
  const text = json.length > maxYamlLength ? json : stringify(JSON.parse(json));
  sendJson(response, status, text, 'application/yaml');
}

export function tableOf(objects: readonly ApiObject[], view: View, metadata: object, withColumns = true) {
  return toTable(view.type, objects, { include: view.include, now: view.now, metadata, withColumns });
}

export function sendList(response: Response, list: ListResult, view: View): void {
  const { type, representation } = view;
  const metadata = {
    resourceVersion: String(list.revision),
    ...(list.continue === undefined ? {} : { continue: list.continue }),
    ...(list.remaining === undefined ? {} : { remainingItemCount: list.remaining }),
  };
  const plain = { kind: `${type.kind}List`, apiVersion: apiVersionOf(type), metadata };
  switch (representation.kind) {
    case 'table': {
      const { rows: _none, ...head } = tableOf([], view, metadata);
      sendPieces(response, jsonWithList(head, 'rows', tableRows(list, view)));
      return;
    }
    case 'partial': {
      const head = { kind: 'PartialObjectMetadataList', apiVersion: 'meta.k8s.io/v1', metadata };
      sendPieces(response, jsonWithList(head, 'items', partialItems(list)));
      return;
    }
    case 'plain': {
      // The texts of the objects are there already.
      const pieces = () => jsonWithList(plain, 'items', textsOf(list));
      const length = list.entries.reduce((sum, { json }) => sum + json.length, 0);
      if (representation.encoding === 'yaml' && length <= maxYamlLength)
        sendYaml(response, 200, [...pieces()].join(''));
      else sendPieces(response, pieces(), representation.encoding);
    }
  }
}

function* textsOf({ entries }: ListResult): Generator<string> {
  for (const { json } of entries) yield json;
}

function* partialItems({ entries }: ListResult): Generator<string> {
  for (const { object } of entries) yield JSON.stringify(partialMetadata(object));
}

function* tableRows({ entries }: ListResult, view: View): Generator<string> {
  for (const { object } of entries) {
    const [row] = tableOf([object], view, {}, false).rows;
    yield JSON.stringify(row);
  }
}
