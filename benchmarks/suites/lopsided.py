"""Statements over shapes that are far from square: a part of a large tensor is read or written, or a tensor is long and narrow.

What costs as much as the whole where a part is meant, or goes one by one down a few long columns, does not show where matrices are square.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from suites.case import Case

PARTS = {
    "z": "tl.randn(200000, 64)", "zt": "tl.randn(64, 200000).t()", "i": "tl.randint(0, 200000, (100,))", "y": "tl.randn(100, 64)",
    "row": "tl.randn(64)",
    "m": "tl.arange(200000) == 5", "b": "(tl.arange(200000) == 5)[:, None].expand(200000, 64).contiguous()", "i1": "tl.tensor([7])",
    "v": "tl.randn(100)",
    "z1": "tl.randn(200000)", "zi": "tl.randint(0, 1000, (200000,))", "srt": "tl.randn(200000).sort()[0]", "few": "tl.randn(10)",
    "ones": "tl.ones(200000, 1)",
    "few64": "tl.ones(1, 64)", "e": "tl.randn(1, 64).expand(200000, 64)", "e1": "tl.randn(1).expand(200000)",
    "z3": "tl.randn(64, 50, 1000)",
    "c": "tl.randn(2, 8, 4096, 64)", "q1": "tl.randn(2, 8, 1, 64)", "pos": "tl.tensor([100])",
    "w": "tl.randn(200000, 64, requires_grad=True)",
    "zz": "tl.zeros(200000, 64, dtype=tl.complex64)", "zh": "tl.zeros(200000, 64, dtype=tl.bfloat16)",
    "yh": "tl.randn(100, 64).bfloat16()",
    "zb": "tl.zeros(200000, 64, dtype=tl.uint8)", "ij": "tl.randint(0, 200000, (100, 1)).expand(100, 64)",
}  # fmt: skip
OF_PARTS = """
z[5]=1.0; z[:,3]=0.0; z[i]=y; z[i]+=1; z[i,3]=2.0; z[m]=0.0; z[m]=row; z[5:10]=row; z[...,0]=1; z[i1]; z[5,3].item();
z[-1].tolist(); zt[i]; zt[5]=1.0; zt[i]=y; zt.index_select(0,i); zt.gather(0,ij); zt.take(i); zt[:,3].sum(); zt.index_add_(0,i,y);
zt.index_copy_(0,i,y); zt.index_fill_(0,i,1.); zt.scatter_(0,ij,y); zt.put_(i,y[:,0]); zt.masked_fill_(m[:,None],0.);
z[:, :32].index_add_(0,i,y[:,:32]); z[::2].index_copy_(0,i//2,y);
z3.transpose(0,1).index_copy_(0,tl.tensor([3]),tl.zeros(1,64,1000)); e.sum(); e.sum(0); e[i]; e.index_select(0,i); e.gather(0,ij);
e1.cumsum(0); e1.topk(3); e.argmax(1); (e*1).sum(); e1.sort(); tl.searchsorted(srt,few); tl.bucketize(few,srt); tl.isin(few,z1);
z1.topk(5); z1.kthvalue(10); z1.median(); z1.argmax(); z1.quantile(0.5); z1.abs().multinomial(1); z1.unique(); zi.unique();
zi.bincount(); z1.histc(10); tl.histogram(z1,10); z1.roll(1); z1.flip(0); F.pad(z1,(1,1)); z1.unfold(0,3,1).sum(1);
tl.stack([z1,z1]).sum(); z1.diff(); z.norm(dim=1); F.normalize(z,dim=1); F.cosine_similarity(z,row[None],dim=1);
tl.cdist(y[:5],z[:20000]); z@row; row@z.t(); z.t()@z1; tl.einsum('nd,d->n',z,row); (z*row).sum(1); z.mean(0); z.var(0); z.std(1);
z.softmax(1); z.logsumexp(1); z.argsort(1); z.any(); (z>5).any(); z.isnan().any(); z.count_nonzero(); z.max(0)[0]; z.amax(1);
z.prod(1); c.index_copy_(2,pos,tl.zeros(2,8,1,64)); c[:,:,pos]=q1; F.scaled_dot_product_attention(q1,c,c);
F.scaled_dot_product_attention(q1,c[:,:,:2000],c[:,:,:2000]); q1@c[:,:,:2000].transpose(2,3); c[:,:,:2000].sum(); F.embedding(i,w);
F.embedding(i,w).sum().backward(); w[i].sum().backward(); w.index_select(0,i).sum().backward();
zz.index_add_(0,i,y.to(tl.complex64)); zz[i]=1j; zh.index_add_(0,i,yh); zh.index_copy_(0,i,yh); zh.scatter_add_(0,ij,yh);
zh.index_put_((i,),yh,accumulate=True); zb.index_fill_(0,i,3); zb.scatter_(0,ij,3); z.narrow(0,5,10).zero_();
z.t().index_fill_(1,i,0.); z.unsqueeze(0).index_add_(1,i,y[None]); z.view(-1)[i]=1.; z.T[3]=1.; z.as_strided((10,),(64,)).fill_(1);
tl.cat([z[:5],y]); z.triu_(); z.clone()[:1]; z[:1].clone(); m.nonzero(); z[m]; z.masked_select(m[:,None]); tl.where(m);
z.split(1000); z[:1000].unbind(0); z.chunk(4); list(z[:100]); z.equal(z); tl.allclose(z,z); z.numpy()[0];
tl.from_numpy(z.numpy())[0]; z.to(tl.float32)[0]; z.float()[0]; z.contiguous()[0]; zt.contiguous()[0]; z.detach()[0];
tl.as_tensor(z)[0]; z.reshape(-1)[0]; zt.reshape(-1)[0]; zt.flatten()[0]; z.masked_scatter_(b,v); z.index_reduce_(0,i,y,'amax');
z.addr_(z[:,0],v[:64]); zt.addmm_(ones, few64)
"""

LONG = {
    "A": "tl.randn(100000, 4)", "B": "tl.randn(4, 100000)", "C": "tl.randn(64, 1000, 16)", "D": "tl.randn(1000000)",
    "E": "tl.randn(300, 300)",
    "T": "tl.randn(32, 128, 64)", "I": "tl.randint(0, 1000, (100000,))", "L": "tl.randint(0, 4, (100000,))", "BB": "tl.randn(2000, 8, 8)",
    "bv": "tl.randn(2000, 8, 1)", "img": "tl.randn(8, 3, 64, 64)", "im1": "tl.randn(1, 64, 56, 56)", "seq": "tl.randn(1, 1, 200000)",
    "s16": "tl.randn(16, 64, 500)", "m": "tl.randn(1000, 1000) > 0", "cls": "tl.randint(0, 30000, (64,))", "big": "tl.randn(64, 30000)",
    "d64": "tl.randn(1000, 1000).double()", "h16": "tl.randn(1000, 1000).bfloat16()", "i64": "tl.randint(0, 100, (1000, 1000))",
    "i32": "tl.randint(0, 100, (1000, 1000)).int()", "u8": "tl.randint(0, 100, (1000, 1000)).to(tl.uint8)", "k1": "tl.randn(1, 1, 512)",
    "w31": "tl.randn(64, 1, 31, 31)", "dw": "tl.randn(64, 1, 7, 7)", "c1": "tl.randn(64, 64, 9)", "ct": "tl.randn(64, 32, 4, 4)",
    "g8": "tl.randn(64, 8, 3, 3)",
    "w3": "tl.randn(64, 64, 3, 3)", "lstm": "tl.nn.LSTM(32, 64)", "gru": "tl.nn.GRU(32, 64, bidirectional=True)",
    "xl": "tl.randn(200, 1, 32)",
    "xb": "tl.randn(50, 32, 32)", "ln": "tl.nn.LayerNorm(4)", "bn": "tl.nn.BatchNorm1d(4)", "gn": "tl.nn.GroupNorm(8, 64)",
    "bn2": "tl.nn.BatchNorm2d(64)",
    "emb": "tl.nn.EmbeddingBag(1000, 32, mode='mean')", "off": "tl.arange(0, 100000, 100)", "r": "tl.randn", "one": "tl.nn.Linear(10, 1)",
    "X": "tl.randn(100000, 10)", "wide": "tl.nn.Linear(4, 16)",
}  # fmt: skip
OF_LONG = """
A.sum(0); A.sum(1); A.mean(0,keepdim=True); A.max(1); A.max(0); A.argmax(1); A.argmin(0); A.softmax(1); A.softmax(0); B.softmax(0);
A.log_softmax(1); A.logsumexp(1); A.logsumexp(0); A.norm(dim=1); A.norm(dim=0); A.std(0); A.var(1); A.prod(1); A.cumsum(0);
A.cumsum(1); B.cumsum(1); B.cumsum(0); A.cumprod(0); A.cummax(0); A.cummax(1); A.logcumsumexp(1); A.sort(1); A.sort(0);
A.argsort(0); A.topk(2,1); A.topk(2,0); A.median(1); A.median(0); A.kthvalue(2,1); A.mode(1); A.quantile(0.5,0); A.quantile(0.3,1);
A.unique(dim=0); I.unique(return_inverse=True,return_counts=True); I.unique_consecutive(); I.bincount(minlength=1000); A.any(1);
(A>0).all(1); (A>0).sum(1); (A>0).sum(0); (A>0).float().mean(); m.sum(); m.sum(0); m.any(0); m.nonzero(); E[m[:300,:300]];
tl.where(m); C.sum((0,2)); C.mean(1); C.sum(1); C.amax((0,1)); C.permute(2,0,1).sum(0); C.transpose(0,1).contiguous();
C.permute(2,1,0).contiguous(); C.transpose(1,2).contiguous(); C.flip(1); C.roll(3,1); C.repeat(1,2,1); C.repeat_interleave(2,1);
C.unfold(1,5,2).contiguous(); C.diff(dim=1); D.unfold(0,100,50).mean(1); D.view(1000,1000).t().contiguous(); D.sort(); D.topk(10);
D.kthvalue(500); D.median(); D.cumsum(0); D.std(); D.norm(); D.histc(100); D.argmax(); D.unique(); D.argsort(); D.quantile(0.9);
D.nan_to_num(); D.clamp(-1,1); D.sign(); D.abs().max(); D.isfinite().all(); (D>0).sum(); D.to(tl.float64); D.to(tl.bfloat16);
D.long(); D.round(decimals=2); D.frac(); D.fmod(0.3); D%0.3; D//0.3; D**3; D**0.5; D.abs()**1.7; 2.0**D; D.exp(); D.log1p();
D.tanh(); D.erf(); D.sigmoid(); tl.lerp(D,D,0.3); tl.addcmul(D,D,D); tl.where(D>0,D,0.1*D); tl.maximum(D,D); tl.atan2(D,D);
tl.hypot(D,D); E@E; E@E[:,0]; E.t()@E; A@B[:,:4]; A.t()@A; B@A; B@B.t(); A@r(4,64); A@r(4,1); A[:, :1]@A[:1]; BB@BB; BB@bv;
(BB*bv).sum(1); tl.einsum('bij,bjk->bik',BB,BB); tl.einsum('bij,bij->b',BB,BB); tl.einsum('bij->bji',BB).contiguous();
tl.einsum('i,j->ij',D[:1000],D[:1000]); tl.einsum('bti,bsi->bts',T,T); tl.einsum('bti,ij->btj',T,r(64,64));
tl.einsum('abc,abd->cd',T,T); tl.tensordot(T,T,([0,1],[0,1])); T@r(64,64); T@T.transpose(1,2); T.transpose(1,2)@T; T@r(64);
tl.linalg.inv(BB); tl.linalg.det(BB); tl.linalg.solve(E,E); tl.linalg.cholesky(E@E.t()+300*tl.eye(300)); tl.linalg.qr(E);
tl.linalg.svd(E); tl.linalg.eigh(E+E.t()); tl.linalg.lstsq(A,A[:,:1]); tl.linalg.matrix_exp(BB[:100]); tl.linalg.pinv(A);
tl.linalg.norm(E); tl.linalg.matrix_norm(E,2); tl.trace(E); E.diag(); tl.diag_embed(A[:1000]); tl.block_diag(E,E);
tl.kron(E[:30,:30],E[:30,:30]); tl.cdist(A[:500],A[:2000]); tl.cov(B); tl.corrcoef(B); F.conv1d(seq,k1);
F.conv1d(s16,c1,padding=4); F.conv1d(s16,r(64,1,9),groups=64,padding=4); F.conv1d(s16,c1,padding=16,dilation=4);
F.conv2d(im1,w31,padding=15,groups=64); F.conv2d(im1,dw,padding=3,groups=64); F.conv2d(im1,g8,padding=1,groups=8);
F.conv2d(im1,w3,padding=2,dilation=2); F.conv2d(im1,w3,stride=2,padding=1); F.conv2d(img,r(32,3,7,7),stride=2,padding=3);
F.conv2d(img,r(8,3,16,16),stride=16); F.conv_transpose2d(im1,ct,stride=2,padding=1);
F.conv3d(r(1,8,16,32,32),r(8,8,3,3,3),padding=1); F.max_pool2d(im1,3,2,1); F.avg_pool2d(im1,3,1,1); F.avg_pool2d(im1,56);
F.adaptive_avg_pool2d(im1,7); F.adaptive_avg_pool2d(im1,1); F.adaptive_max_pool2d(im1,5); F.max_pool1d(s16,50,50);
F.interpolate(img,scale_factor=2,mode='bilinear'); F.interpolate(img,scale_factor=2); F.interpolate(img,size=33,mode='bicubic');
F.interpolate(img,size=20,mode='area'); F.interpolate(s16,scale_factor=3,mode='linear'); F.grid_sample(img,r(8,40,40,2).tanh());
F.affine_grid(r(8,2,3),(8,3,64,64)); F.unfold(img,5); F.fold(r(8,75,3600),64,5); F.pixel_shuffle(r(8,64,16,16),4);
F.pad(img,(3,3,3,3),mode='reflect'); F.pad(img,(3,3,3,3)); F.cross_entropy(big,cls); F.cross_entropy(A,L);
F.nll_loss(A.log_softmax(1),L); F.binary_cross_entropy_with_logits(D,D.sigmoid()); F.mse_loss(D,D*2); F.smooth_l1_loss(D,D*2);
F.kl_div(A.log_softmax(1),A.softmax(1),reduction='batchmean'); F.cosine_similarity(A,A*2); F.triplet_margin_loss(A,A+1,A-1);
F.one_hot(I,1000); F.embedding(I,r(1000,32)); emb(I,off); F.gelu(D); F.silu(D); F.softplus(D); F.elu(D); F.leaky_relu(D);
F.hardswish(D); F.mish(D); F.glu(A); F.prelu(A,tl.tensor([0.1])); F.dropout(D,0.3); F.normalize(A); F.layer_norm(C,(16,));
F.layer_norm(T,(64,)); ln(A); bn(A); gn(s16); bn2(im1); F.instance_norm(im1); F.local_response_norm(im1,5); F.rms_norm(T,(64,));
lstm(xl)[0]; lstm(xb)[0]; gru(xb)[0]; tl.randperm(100000); tl.multinomial(D[:10000].abs(),100); tl.multinomial(A[:1000].abs(),1);
tl.bernoulli(D.sigmoid()); tl.rand(1000000); tl.randn(1000000); tl.randint(0,10,(1000000,)); tl.normal(D,1.0);
tl.empty(1000,1000).exponential_(); tl.arange(1000000); tl.linspace(0,1,1000000); tl.full((1000,1000),3.0); tl.eye(1000);
tl.tril(E); tl.tril_indices(1000,1000); tl.combinations(D[:300]); tl.cartesian_prod(D[:300],D[:300]);
tl.meshgrid(D[:1000],D[:1000],indexing='ij'); tl.stack([A]*10); tl.cat([A]*10,1); tl.cat([A]*10); tl.hstack([A,A]);
tl.chunk(D,100); d64@d64; d64.sum(1); d64.exp(); d64.sort(); h16@h16; h16.sum(); h16.softmax(1); h16+h16; h16.exp(); h16.float();
F.layer_norm(h16,(1000,)); i64.sum(); i64.sum(1); i64+i64; i64*i64; i64//7; i64%7; i64**2; i64.float(); i64==5; i64.max(1);
i64.sort(); i64.cumsum(1); i32.sum(); i32+1; i32>>2; i32&7; u8.float()/255; u8.sum(); u8.float().mean(); u8+u8; u8>5;
(u8>5)&(u8<50); ~(u8>5); tl.searchsorted(D[:1000].sort()[0],D); tl.bucketize(D,tl.linspace(-3,3,100)); tl.isin(I,I[:100]);
tl.take_along_dim(A,L[:,None],1); A.gather(1,L[:,None]); r(1000,32)[I]; r(1000,32).index_select(0,I);
tl.zeros(1000,4).index_add(0,I,A); tl.zeros(1000,4).scatter_add(0,I[:,None].expand(-1,4),A);
tl.zeros(1000).scatter_add(0,I,D[:100000]); tl.zeros(1000,4).scatter_reduce(0,I[:,None].expand(-1,4),A,'amax'); tl.fft.rfft(D);
tl.fft.fft(r(1000,1000)); tl.fft.fft2(r(8,64,64)); tl.stft(D[:100000],400,160,window=tl.hann_window(400),return_complex=True);
tl.view_as_real(tl.complex(D,D)).sum(); tl.polar(D.abs(),D); tl.complex(D,D).abs(); tl.complex(D,D)*tl.complex(D,D); one(X);
wide(A); X@X[0]; tl.topk(A.softmax(1),2,1)
"""


def _setup(names: dict[str, str], statement: str) -> Callable[[Any], dict[str, Any]]:
    """What the statement names, and no more."""
    used = set(re.findall(r"[A-Za-z_][A-Za-z_0-9]*", statement))

    def setup(tl: Any) -> dict[str, Any]:
        tl.manual_seed(0)
        return {"tl": tl, "F": tl.nn.functional} | {name: eval(text, {"tl": tl}) for name, text in names.items() if name in used}

    return setup


CASES = [
    Case(f"{title}: {statement}", "us", _setup(names, statement), statement, max_ratio=1.15, headline=False)
    for title, names, text in (("part", PARTS, OF_PARTS), ("long", LONG, OF_LONG))
    for statement in dict.fromkeys(s.strip() for s in text.replace("\n", " ").split(";") if s.strip())
]
