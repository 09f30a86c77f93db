"""CPU and feature names that LLVM 22 knows (printed by its own `-mcpu=help`), to check targets with."""

# ruff: noqa: SIM905
from __future__ import annotations

CPUS: dict[str, frozenset[str]] = {
    "x86": frozenset(
        """
        alderlake amdfam10 arrowlake arrowlake-s arrowlake_s athlon athlon-4 athlon-fx athlon-mp athlon-tbird
        athlon-xp athlon64 athlon64-sse3 atom atom_sse4_2 atom_sse4_2_movbe barcelona bdver1 bdver2 bdver3 bdver4
        bonnell broadwell btver1 btver2 c3 c3-2 cannonlake cascadelake clearwaterforest cooperlake core-avx-i
        core-avx2 core2 core_2_duo_sse4_1 core_2_duo_ssse3 core_2nd_gen_avx core_3rd_gen_avx core_4th_gen_avx
        core_4th_gen_avx_tsx core_5th_gen_avx core_5th_gen_avx_tsx core_aes_pclmulqdq core_i7_sse4_2 corei7
        corei7-avx diamondrapids emeraldrapids generic geode goldmont goldmont-plus goldmont_plus gracemont
        grandridge graniterapids graniterapids-d graniterapids_d haswell i386 i486 i586 i686 icelake-client
        icelake-server icelake_client icelake_server ivybridge k6 k6-2 k6-3 k8 k8-sse3 knl knm lakemont lunarlake
        meteorlake mic_avx512 nehalem nocona novalake opteron opteron-sse3 pantherlake penryn pentium pentium-m
        pentium-mmx pentium2 pentium3 pentium3m pentium4 pentium4m pentium_4 pentium_4_sse3 pentium_ii pentium_iii
        pentium_iii_no_xmm_regs pentium_m pentium_mmx pentium_pro pentiumpro prescott raptorlake rocketlake
        sandybridge sapphirerapids sierraforest silvermont skx skylake skylake-avx512 skylake_avx512 slm tigerlake
        tremont westmere wildcatlake winchip-c6 winchip2 x86-64 x86-64-v2 x86-64-v3 x86-64-v4 yonah znver1 znver2
        znver3 znver4 znver5
    """.split()
    ),
    "aarch64": frozenset(
        """
        a64fx ampere1 ampere1a ampere1b ampere1c apple-a10 apple-a11 apple-a12 apple-a13 apple-a14 apple-a15
        apple-a16 apple-a17 apple-a18 apple-a19 apple-a7 apple-a8 apple-a9 apple-m1 apple-m2 apple-m3 apple-m4
        apple-m5 apple-s10 apple-s4 apple-s5 apple-s6 apple-s7 apple-s8 apple-s9 c1-nano c1-premium c1-pro c1-ultra
        carmel cobalt-100 cortex-a320 cortex-a34 cortex-a35 cortex-a510 cortex-a520 cortex-a520ae cortex-a53
        cortex-a55 cortex-a57 cortex-a65 cortex-a65ae cortex-a710 cortex-a715 cortex-a72 cortex-a720 cortex-a720ae
        cortex-a725 cortex-a73 cortex-a75 cortex-a76 cortex-a76ae cortex-a77 cortex-a78 cortex-a78ae cortex-a78c
        cortex-r82 cortex-r82ae cortex-x1 cortex-x1c cortex-x2 cortex-x3 cortex-x4 cortex-x925 cyclone exynos-m3
        exynos-m4 exynos-m5 falkor fujitsu-monaka gb10 generic grace kryo neoverse-512tvb neoverse-e1 neoverse-n1
        neoverse-n2 neoverse-n3 neoverse-v1 neoverse-v2 neoverse-v3 neoverse-v3ae olympus oryon-1 saphira thunderx
        thunderx2t99 thunderx3t110 thunderxt81 thunderxt83 thunderxt88 tsv110
    """.split()
    ),
    "arm": frozenset(
        """
        arm1020e arm1020t arm1022e arm10e arm10tdmi arm1136j-s arm1136jf-s arm1156t2-s arm1156t2f-s arm1176jz-s
        arm1176jzf-s arm710t arm720t arm7tdmi arm7tdmi-s arm8 arm810 arm9 arm920 arm920t arm922t arm926ej-s arm940t
        arm946e-s arm966e-s arm968e-s arm9e arm9tdmi cortex-a12 cortex-a15 cortex-a17 cortex-a32 cortex-a35
        cortex-a5 cortex-a510 cortex-a53 cortex-a55 cortex-a57 cortex-a7 cortex-a710 cortex-a72 cortex-a73
        cortex-a75 cortex-a76 cortex-a76ae cortex-a77 cortex-a78 cortex-a78ae cortex-a78c cortex-a8 cortex-a9
        cortex-m0 cortex-m0plus cortex-m1 cortex-m23 cortex-m3 cortex-m33 cortex-m35p cortex-m4 cortex-m52
        cortex-m55 cortex-m7 cortex-m85 cortex-r4 cortex-r4f cortex-r5 cortex-r52 cortex-r52plus cortex-r7 cortex-r8
        cortex-x1 cortex-x1c cyclone ep9312 exynos-m3 exynos-m4 exynos-m5 generic iwmmxt krait kryo mpcore
        mpcorenovfp neoverse-n1 neoverse-n2 neoverse-v1 sc000 sc300 star-mc1 star-mc3 strongarm strongarm110
        strongarm1100 strongarm1110 swift xscale
    """.split()
    ),
    "riscv": frozenset(
        """
        andes-45-series andes-a25 andes-a45 andes-ax25 andes-ax45 andes-ax45mpv andes-n45 andes-nx45 generic
        generic-ooo generic-rv32 generic-rv64 mips-p8700 rocket rocket-rv32 rocket-rv64 rp2350-hazard3
        sifive-7-series sifive-e20 sifive-e21 sifive-e24 sifive-e31 sifive-e34 sifive-e76 sifive-p450 sifive-p470
        sifive-p550 sifive-p670 sifive-p870 sifive-s21 sifive-s51 sifive-s54 sifive-s76 sifive-u54 sifive-u74
        sifive-x280 sifive-x390 spacemit-x60 syntacore-scr1-base syntacore-scr1-max syntacore-scr3-rv32
        syntacore-scr3-rv64 syntacore-scr4-rv32 syntacore-scr4-rv64 syntacore-scr5-rv32 syntacore-scr5-rv64
        syntacore-scr7 tt-ascalon-d8 veyron-v1 xiangshan-kunminghu xiangshan-nanhu
    """.split()
    ),
    "wasm": frozenset(
        """
        bleeding-edge generic lime1 mvp
    """.split()
    ),
}

FEATURES: dict[str, frozenset[str]] = {
    "x86": frozenset(
        """
        16bit-mode 32bit-mode 64bit 64bit-mode adx aes allow-light-256-bit amx-avx512 amx-bf16 amx-complex amx-fp16
        amx-fp8 amx-int8 amx-movrs amx-tf32 amx-tile avx avx10.1 avx10.1-512 avx10.2 avx10.2-512 avx2 avx512bf16
        avx512bitalg avx512bw avx512cd avx512dq avx512f avx512fp16 avx512ifma avx512vbmi avx512vbmi2 avx512vl
        avx512vnni avx512vp2intersect avx512vpopcntdq avxifma avxneconvert avxvnni avxvnniint16 avxvnniint8 bmi bmi2
        branch-hint branchfusion ccmp cf cldemote clflushopt clwb clzero cmov cmpccxadd crc32 cx16 cx8 egpr enqcmd
        ermsb evex512 f16c false-deps-getmant false-deps-lzcnt-tzcnt false-deps-mulc false-deps-mullq
        false-deps-perm false-deps-popcnt false-deps-range fast-11bytenop fast-15bytenop fast-7bytenop fast-bextr
        fast-dpwssd fast-gather fast-hops fast-imm16 fast-lzcnt fast-movbe fast-scalar-fsqrt fast-scalar-shift-masks
        fast-shld-rotate fast-variable-crosslane-shuffle fast-variable-perlane-shuffle fast-vector-fsqrt
        fast-vector-shift-masks faster-shift-than-shuffle fma fma4 fsgsbase fsrm fxsr gfni harden-sls-ijmp
        harden-sls-ret hreset idivl-to-divb idivq-to-divl inline-asm-use-gpr32 invpcid kl lea-sp lea-uses-ag lvi-cfi
        lvi-load-hardening lwp lzcnt macrofusion mmx movbe movdir64b movdiri movrs mwaitx ndd nf no-bypass-delay
        no-bypass-delay-blend no-bypass-delay-mov no-bypass-delay-shuffle nopl pad-short-functions pclmul pconfig
        pku popcnt ppx prefer-128-bit prefer-256-bit prefer-legacy-setcc prefer-mask-registers
        prefer-movmsk-over-vtest prefer-no-gather prefer-no-scatter prefetchi prfchw ptwrite push2pop2 raoint rdpid
        rdpru rdrnd rdseed retpoline retpoline-external-thunk retpoline-indirect-branches retpoline-indirect-calls
        rtm sahf sbb-dep-breaking serialize seses sgx sha sha512 shstk slow-3ops-lea slow-incdec slow-lea
        slow-pmaddwd slow-pmulld slow-pmullq slow-shld slow-two-mem-ops slow-unaligned-mem-16 slow-unaligned-mem-32
        sm3 sm4 soft-float sse sse-unaligned-mem sse2 sse3 sse4.1 sse4.2 sse4a ssse3 tagged-globals tbm tsxldtrk
        tuning-fast-imm-vector-shift uintr use-glm-div-sqrt-costs use-slm-arith-costs usermsr vaes vpclmulqdq
        vzeroupper waitpkg wbnoinvd widekl x32 x87 xop xsave xsavec xsaveopt xsaves zu
    """.split()
    ),
    "aarch64": frozenset(
        """
        CONTEXTIDREL2 a320 a35 a510 a520 a520ae a53 a55 a57 a64fx a65 a710 a715 a72 a720 a720ae a73 a75 a76 a77 a78
        a78ae a78c addr-lsl-slow-14 aes aggressive-fma aggressive-interleaving all
        alternate-sextload-cvt-f32-pattern altnzcv alu-lsl-fast am ampere1 ampere1a ampere1b ampere1c amvs apple-a10
        apple-a11 apple-a12 apple-a13 apple-a14 apple-a15 apple-a16 apple-a17 apple-a7 apple-m4 apple-m5
        arith-bcc-fusion arith-cbz-fusion ascend-store-address avoid-ldapur balance-fp-ops bf16 brbe bti btie
        c1-nano c1-premium c1-pro c1-ultra call-saved-x10 call-saved-x11 call-saved-x12 call-saved-x13
        call-saved-x14 call-saved-x15 call-saved-x18 call-saved-x8 call-saved-x9 carmel ccdp ccidx ccpp chk clrbhb
        cmh cmp-bcc-fusion cmpbr complxnum cortex-a725 cortex-r82 cortex-r82ae cortex-x1 cortex-x2 cortex-x3
        cortex-x4 cortex-x925 cpa crc crypto cssc d128 disable-fast-inc-vl disable-latency-sched-heuristic
        disable-ldp disable-maximize-scalable-bandwidth disable-stp disable-unpredicated-ld-st-lower dit dotprod ecv
        el2vmsa el3 enable-select-opt ete execute-only exynos-cheap-as-move exynosm3 exynosm4 f16f32dot f16f32mm
        f16mm f32mm f64mm f8f16mm f8f32mm falkor faminmax fgt fix-cortex-a53-835769 flagm fmv
        force-32bit-jump-tables fp-armv8 fp16fml fp8 fp8dot2 fp8dot4 fp8fma fpac fprcvt fptoint fujitsu-monaka
        fullfp16 fuse-address fuse-addsub-2reg-const1 fuse-adrp-add fuse-aes fuse-arith-logic fuse-crypto-eor
        fuse-csel fuse-cset fuse-literals gcie gcs harden-sls-blr harden-sls-nocomdat harden-sls-retbr hbc hcx i8mm
        ite jsconv kryo ldp-aligned-only lor ls64 lscp lse lse128 lse2 lsfe lsui lut max-interleave-factor-4 mec
        mops mops-go mpam mpamv2 mte mtetc neon neoverse512tvb neoversee1 neoversen1 neoversen2 neoversen3
        neoversev1 neoversev2 neoversev3 neoversev3AE nmi no-bti-at-return-twice no-neg-immediates no-sve-fp-ld1r
        no-zcz-fpr64 nv occmo olympus oryon-1 outline-atomics pan pan-rwv pauth pauth-lr pcdphint perfmon poe2 pops
        predictable-select-expensive predres prfm-slc-target rand ras rasv2 rcpc rcpc-immo rcpc3 rdm
        reserve-lr-for-ra reserve-x1 reserve-x10 reserve-x11 reserve-x12 reserve-x13 reserve-x14 reserve-x15
        reserve-x18 reserve-x2 reserve-x20 reserve-x21 reserve-x22 reserve-x23 reserve-x24 reserve-x25 reserve-x26
        reserve-x27 reserve-x28 reserve-x3 reserve-x4 reserve-x5 reserve-x6 reserve-x7 reserve-x9 rme saphira sb
        sel2 sha2 sha3 slow-misaligned-128store slow-paired-128 slow-strqro-store sm4 sme sme-b16b16 sme-f16f16
        sme-f64f64 sme-f8f16 sme-f8f32 sme-fa64 sme-i16i64 sme-lutv2 sme-mop4 sme-tmop sme2 sme2p1 sme2p2 sme2p3 spe
        spe-eef specres2 specrestrict ssbs ssve-aes ssve-bitperm ssve-fexpa ssve-fp8dot2 ssve-fp8dot4 ssve-fp8fma
        store-pair-suppress stp-aligned-only strict-align sve sve-aes sve-aes2 sve-b16b16 sve-b16mm sve-bfscale
        sve-bitperm sve-f16f32mm sve-sha3 sve-sm4 sve2 sve2-aes sve2-bitperm sve2-sha3 sve2-sm4 sve2p1 sve2p2 sve2p3
        tagged-globals tev the thunderx thunderx2t99 thunderx3t110 thunderxt81 thunderxt83 thunderxt88 tlb-rmi tlbid
        tlbiw tpidr-el1 tpidr-el2 tpidr-el3 tpidrro-el0 tracev8.4 trbe tsv110 uaops use-experimental-zeroing-pseudos
        use-fixed-over-scalable-if-equal-cost use-postra-scheduler use-reciprocal-square-root use-wzr-to-vec-move
        v8.1a v8.2a v8.3a v8.4a v8.5a v8.6a v8.7a v8.8a v8.9a v8a v8r v9.1a v9.2a v9.3a v9.4a v9.5a v9.6a v9.7a v9a
        vh wfxt xs zcm-fpr128 zcm-fpr32 zcm-fpr64 zcm-gpr32 zcm-gpr64 zcz-fp-workaround zcz-fpr128 zcz-gpr32
        zcz-gpr64
    """.split()
    ),
    "arm": frozenset(
        """
        32bit 8msecext a12 a15 a17 a32 a35 a5 a53 a55 a57 a7 a72 a73 a75 a76 a77 a78c a8 a9 aapcs-frame-chain aclass
        acquire-release aes armv4 armv4t armv5t armv5te armv5tej armv6 armv6-m armv6j armv6k armv6kz armv6s-m
        armv6t2 armv7-a armv7-m armv7-r armv7e-m armv7k armv7s armv7ve armv8-a armv8-m.base armv8-m.main armv8-r
        armv8.1-a armv8.1-m.main armv8.2-a armv8.3-a armv8.4-a armv8.5-a armv8.6-a armv8.7-a armv8.8-a armv8.9-a
        armv9-a armv9.1-a armv9.2-a armv9.3-a armv9.4-a armv9.5-a armv9.6-a armv9.7-a atomics-32 avoid-movs-shop
        avoid-muls avoid-partial-cpsr bf16 big-endian-instructions branch-align-64 cde cdecp0 cdecp1 cdecp2 cdecp3
        cdecp4 cdecp5 cdecp6 cdecp7 cheap-predicable-cpsr clrbhb cortex-a510 cortex-a710 cortex-a78 cortex-a78ae
        cortex-x1 cortex-x1c crc crypto d32 db dfb disable-postra-scheduler dont-widen-vmovs dotprod dsp
        execute-only expand-fp-mlx exynos fix-cmse-cve-2021-35465 fix-cortex-a57-aes-1742098 fp-armv8 fp-armv8d16
        fp-armv8d16sp fp-armv8sp fp16 fp16fml fp64 fpao fpregs fpregs16 fpregs64 fullfp16 fuse-aes fuse-literals
        harden-sls-blr harden-sls-nocomdat harden-sls-retbr hwdiv hwdiv-arm i8mm iwmmxt iwmmxt2 krait kryo lob
        long-calls loop-align m3 m55 m7 m85 mclass mp muxed-units mve mve.fp mve1beat mve2beat mve4beat neon
        neon-fpmovs neonfp neoverse-v1 no-branch-predictor no-bti-at-return-twice no-movt no-neg-immediates noarm
        nonpipelined-vfp pacbti perfmon prefer-ishst prefer-vmovsr prof-unpr r4 r5 r52 r52plus r7 ras rclass
        read-tp-tpidrprw read-tp-tpidruro read-tp-tpidrurw reserve-r9 ret-addr-stack sb sha2 slow-fp-brcc
        slow-load-D-subreg slow-odd-reg slow-vdup32 slow-vgetlni32 slowfpvfmx slowfpvmlx soft-float splat-vfp-neon
        strict-align swift thumb-mode thumb2 trustzone use-mipipeliner use-misched v4t v5t v5te v6 v6k v6m v6t2 v7
        v7clrex v8 v8.1a v8.1m.main v8.2a v8.3a v8.4a v8.5a v8.6a v8.7a v8.8a v8.9a v8m v8m.main v9.1a v9.2a v9.3a
        v9.4a v9.5a v9.6a v9.7a v9a vfp2 vfp2sp vfp3 vfp3d16 vfp3d16sp vfp3sp vfp4 vfp4d16 vfp4d16sp vfp4sp
        virtualization vldn-align vmlx-forwarding vmlx-hazards wide-stride-vfp xscale zcz
    """.split()
    ),
    "riscv": frozenset(
        """
        32bit 64bit a add-load-fusion addi-load-fusion andes45 auipc-addi-fusion auipc-load-fusion b bfext-fusion c
        conditional-cmv-fusion d disable-latency-sched-heuristic disable-misched-load-clustering
        disable-misched-store-clustering disable-postmisched-load-clustering disable-postmisched-store-clustering
        dlen-factor-2 e enable-vsetvli-sched-heuristic exact-asm experimental experimental-p experimental-rvm23u32
        experimental-smpmpmt experimental-svukte experimental-xrivosvisni experimental-xrivosvizip
        experimental-xsfmclic experimental-xsfsclic experimental-zibi experimental-zicfilp experimental-zicfiss
        experimental-zvbc32e experimental-zvfbfa experimental-zvfofp8min experimental-zvkgs experimental-zvqdotq f
        forced-atomics h i ld-add-fusion log-vrgather lui-addi-fusion lui-load-fusion m mips-p8700 no-default-unroll
        no-sink-splat-operands no-trailing-seq-cst-fence optimized-nf2-segment-load-store
        optimized-nf3-segment-load-store optimized-nf4-segment-load-store optimized-nf5-segment-load-store
        optimized-nf6-segment-load-store optimized-nf7-segment-load-store optimized-nf8-segment-load-store
        optimized-zero-stride-load permissive-zalrsc predictable-select-expensive prefer-vsetvli-over-read-vlenb
        prefer-w-inst q relax reserve-x1 reserve-x10 reserve-x11 reserve-x12 reserve-x13 reserve-x14 reserve-x15
        reserve-x16 reserve-x17 reserve-x18 reserve-x19 reserve-x2 reserve-x20 reserve-x21 reserve-x22 reserve-x23
        reserve-x24 reserve-x25 reserve-x26 reserve-x27 reserve-x28 reserve-x29 reserve-x3 reserve-x30 reserve-x31
        reserve-x4 reserve-x5 reserve-x6 reserve-x7 reserve-x8 reserve-x9 rva20s64 rva20u64 rva22s64 rva22u64
        rva23s64 rva23u64 rvb23s64 rvb23u64 rvi20u32 rvi20u64 save-restore sdext sdtrig sha shcounterenw shgatpa
        shifted-zextw-fusion shlcofideleg short-forward-branch-ialu short-forward-branch-iload
        short-forward-branch-iminmax short-forward-branch-imul shtvala shvsatpa shvstvala shvstvecd
        shxadd-load-fusion sifive7 single-element-vec-fp64 smaia smcdeleg smcntrpmf smcsrind smctr smdbltrp smepmp
        smmpm smnpm smrnmi smstateen ssaia ssccfg ssccptr sscofpmf sscounterenw sscsrind ssctr ssdbltrp ssnpm sspm
        ssqosid ssstateen ssstrict sstc sstvala sstvecd ssu64xl supm svade svadu svbare svinval svnapot svpbmt
        svvptc tagged-globals unaligned-scalar-mem unaligned-vector-mem use-postra-scheduler v ventana-veyron
        vl-dependent-latency vxrm-pipeline-flush xandesbfhcvt xandesperf xandesvbfhcvt xandesvdot xandesvpackfph
        xandesvsinth xandesvsintload xcvalu xcvbi xcvbitmanip xcvelw xcvmac xcvmem xcvsimd xmipscbop xmipscmov
        xmipsexectl xmipslsp xqccmp xqci xqcia xqciac xqcibi xqcibm xqcicli xqcicm xqcics xqcicsr xqciint xqciio
        xqcilb xqcili xqcilia xqcilo xqcilsm xqcisim xqcisls xqcisync xsfcease xsfmm128t xsfmm16t xsfmm32a16f
        xsfmm32a32f xsfmm32a8f xsfmm32a8i xsfmm32t xsfmm64a64f xsfmm64t xsfmmbase xsfvcp xsfvfbfexp16e xsfvfexp16e
        xsfvfexp32e xsfvfexpa xsfvfexpa64e xsfvfnrclipxfqf xsfvfwmaccqqq xsfvqmaccdod xsfvqmaccqoq
        xsifivecdiscarddlone xsifivecflushdlone xsmtvdot xtheadba xtheadbb xtheadbs xtheadcmo xtheadcondmov
        xtheadfmemidx xtheadmac xtheadmemidx xtheadmempair xtheadsync xtheadvdot xventanacondops xwchc za128rs
        za64rs zaamo zabha zacas zalasr zalrsc zama16b zawrs zba zbb zbc zbkb zbkc zbkx zbs zca zcb zcd zce zcf
        zclsd zcmop zcmp zcmt zdinx zexth-fusion zextw-fusion zfa zfbfmin zfh zfhmin zfinx zhinx zhinxmin zic64b
        zicbom zicbop zicboz ziccamoa ziccamoc ziccif zicclsm ziccrse zicntr zicond zicsr zifencei zihintntl
        zihintpause zihpm zilsd zilsd-4byte-align zimop zk zkn zknd zkne zknh zkr zks zksed zksh zkt zmmul ztso zvbb
        zvbc zve32f zve32x zve64d zve64f zve64x zvfbfmin zvfbfwma zvfh zvfhmin zvkb zvkg zvkn zvknc zvkned zvkng
        zvknha zvknhb zvks zvksc zvksed zvksg zvksh zvkt zvl1024b zvl128b zvl16384b zvl2048b zvl256b zvl32768b
        zvl32b zvl4096b zvl512b zvl64b zvl65536b zvl8192b
    """.split()
    ),
    "wasm": frozenset(
        """
        atomics bulk-memory bulk-memory-opt call-indirect-overlong exception-handling extended-const fp16 gc
        multimemory multivalue mutable-globals nontrapping-fptoint reference-types relaxed-simd sign-ext simd128
        tail-call wide-arithmetic
    """.split()
    ),
}
