import type { Figure, Unit } from './figures.ts';

/** Samples as they come, by name, in the order of their first one. */
export class FigureList {
  readonly #figures = new Map<string, { readonly name: string; readonly unit: Unit; readonly samples: number[] }>();

  add(name: string, unit: Unit, sample: number): void {
    const figure = this.#figures.get(name) ?? { name, unit, samples: [] };
    this.#figures.set(name, figure);
    figure.samples.push(sample);
  }

  get figures(): readonly Figure[] {
    return [...this.#figures.values()];
  }
}
