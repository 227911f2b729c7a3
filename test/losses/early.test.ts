import { lossCases } from './loss-cases.ts';

lossCases('early');
