/** Prometheus' text format, version 0.0.4: one family's head, then its samples. */

export const expositionType = 'text/plain; version=0.0.4; charset=utf-8';

export interface Family {
  readonly name: string;
  readonly type: 'counter' | 'gauge';
  readonly help: string;
}

/** Name and value; the order stays. Names are metric label names, values any text. */
export type Label = readonly [name: string, value: string];

export function head({ name, type, help }: Family): string {
  return `# HELP ${name} ${help.replace(/[\\\n]/g, (found) => (found === '\n' ? '\\n' : '\\\\'))}\n# TYPE ${name} ${type}\n`;
}

/** `a="1",b="2"`; labels without a value are left out, as upstream does. */
export function labelText(labels: readonly Label[]): string {
  let text = '';
  for (const [name, value] of labels) {
    if (value === '') continue;
    text += `${text === '' ? '' : ','}${name}="${escaped(value)}"`;
  }
  return text;
}

/** One line. `labels`: of `labelText`, more than one may be joined by the caller. */
export function sampleLine(name: string, labels: string, value: number): string {
  return labels === '' ? `${name} ${numberText(value)}\n` : `${name}{${labels}} ${numberText(value)}\n`;
}

export function joined(one: string, other: string): string {
  if (one === '') return other;
  return other === '' ? one : `${one},${other}`;
}

const special = /[\\"\n]/;

function escaped(value: string): string {
  if (!special.test(value)) return value;
  return value.replace(/[\\"\n]/g, (found) => (found === '\n' ? '\\n' : `\\${found}`));
}

function numberText(value: number): string {
  if (Number.isFinite(value)) return String(value);
  if (Number.isNaN(value)) return 'NaN';
  return value > 0 ? '+Inf' : '-Inf';
}
