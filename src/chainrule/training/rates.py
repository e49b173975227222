"""temporary"""
import math
class Stub:
    def __init__(self, o, f): self.o=o; self.f=f; self.k=0; self._set()
    def _set(self):
        for g in self.o.param_groups: g["lr"]=self.f(self.k)
    def step(self): self.k+=1; self._set()
    def state_dict(self): return {"k": self.k}
    def load_state_dict(self, s): self.k=s["k"]; self._set()
def falling(optimizer, rate, steps, warm_up=0, last=None):
    last = rate/100 if last is None else last
    def f(k):
        if k < warm_up: return rate*(k+1)/(warm_up+1)
        t=min(1.0,(k-warm_up)/(steps-warm_up))
        return last+(rate-last)*0.5*(1+math.cos(math.pi*t))
    return Stub(optimizer,f)
